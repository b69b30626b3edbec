"""A fitted model as a web service: `softbins serve`, or `softbins.serve.app.make_app`.

Needs ``pip install "softbins[serve]"``, which every part of this room says if it is missing.
"""

from softbins._core.extras import optional_import

for _library in ("fastapi", "uvicorn"):
    optional_import(_library, "serve")
