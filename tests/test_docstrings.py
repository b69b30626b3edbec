"""Every public name has a numpydoc docstring that is whole, true to its signature, and runs."""

import doctest
import importlib
import inspect
import sys

import pytest
from numpydoc.docscrape import ClassDoc
from numpydoc.validate import validate

import softbins

MODULES = ["scores", "calibration", "plots", "evaluation", "pipelines", "jax", "keras"]
# Of numpydoc's checks these are not ours: text may start beside the quotes (GL01), a summary is
# in the indicative and may begin with a formula (SS02, SS05), and not everything needs further
# paragraphs, related names, or an example (ES01, SA01, EX01; examples have a test below).
NOT_OURS = {"GL01", "SS02", "SS05", "ES01", "SA01", "EX01"}


def own_members(item):
    """The public methods and properties that a class has from this package."""
    classes = [base for base in item.__mro__ if base.__module__.startswith("softbins")]
    members = {name: value for base in reversed(classes) for name, value in vars(base).items()}
    fields = getattr(item, "_fields", ())
    return {
        name: value
        for name, value in members.items()
        if not name.startswith("_") and name not in fields and hasattr(value, "__get__")
        # scikit-learn makes these, and documents them.
        if not (name.startswith("set_") and name.endswith("_request"))
    }


def public_items():
    """The public classes and functions, by the name that users give after `softbins.`."""
    items = {name: getattr(softbins, name) for name in softbins.__all__}
    for module in MODULES:
        loaded = importlib.import_module(f"softbins.{module}")
        items |= {f"{module}.{name}": getattr(loaded, name) for name in loaded.__all__}
    # Ready-made objects, such as `scores.neg_crps`, are documented by their class.
    return {n: i for n, i in items.items() if inspect.isclass(i) or inspect.isfunction(i)}


ITEMS = public_items()
CLASSES = {name: item for name, item in ITEMS.items() if inspect.isclass(item)}
MEMBERS = {
    f"{name}.{member}": value
    for name, item in CLASSES.items()
    for member, value in own_members(item).items()
}
ATTRIBUTES_OF = [name for name, item in CLASSES.items() if hasattr(item, "_fields")]


def is_method(value):
    return inspect.isfunction(value) or isinstance(value, (classmethod, staticmethod))


def faults(name):
    found = validate(f"softbins.{name}")["errors"]
    return [f"{code}: {text}" for code, text in found if code not in NOT_OURS]


@pytest.mark.parametrize("name", [name for name in ITEMS if name not in ATTRIBUTES_OF])
def test_a_class_or_function_documents_its_signature(name):
    assert faults(name) == []


@pytest.mark.parametrize("name", ATTRIBUTES_OF)
def test_a_named_tuple_documents_its_fields(name):
    documented = [attribute.name for attribute in ClassDoc(ITEMS[name])["Attributes"]]
    assert documented == list(ITEMS[name]._fields)
    assert [fault for fault in faults(name) if not fault.startswith("PR01")] == []


@pytest.mark.parametrize("name", [name for name, value in MEMBERS.items() if is_method(value)])
def test_a_method_documents_its_signature(name):
    assert faults(name) == []


@pytest.mark.parametrize("name", [name for name, value in MEMBERS.items() if not is_method(value)])
def test_a_property_says_what_it_is(name):
    text = inspect.getdoc(MEMBERS[name])
    assert text
    assert text.splitlines()[0].endswith(".")


@pytest.mark.parametrize("name", ITEMS)
def test_a_class_or_function_has_an_example(name):
    assert "Examples\n--------\n>>> " in inspect.getdoc(ITEMS[name])


WITH_EXAMPLES = {
    name: item for name, item in (ITEMS | MEMBERS).items() if ">>>" in (inspect.getdoc(item) or "")
}


@pytest.fixture
def _without_figures():
    yield
    if "matplotlib" in sys.modules:
        importlib.import_module("matplotlib.pyplot").close("all")


@pytest.mark.usefixtures("_without_figures")
@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_run_and_show_what_they_say(name):
    text = inspect.getdoc(WITH_EXAMPLES[name])
    example = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    report = []
    result = doctest.DocTestRunner(verbose=False).run(example, out=report.append)
    assert result.attempted > 0
    assert result.failed == 0, "".join(report)
