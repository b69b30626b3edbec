import pytest
from fastapi.testclient import TestClient

from softbins.serve.app import make_app
from tests.serve.served_models import boolean_model, dated_model, house_model, nameless_model


@pytest.fixture(scope="session")
def models():
    return {
        "houses": house_model(),
        "boolean": boolean_model(),
        "nameless": nameless_model(),
        "l2": nameless_model("l2"),
        "dated": dated_model(),
    }


@pytest.fixture(scope="session")
def clients(models):
    return {
        kind: TestClient(make_app(model, f"{kind}.model"), raise_server_exceptions=False)
        for kind, model in models.items()
    }


@pytest.fixture(scope="session")
def client(clients):
    return clients["houses"]
