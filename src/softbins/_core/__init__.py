"""Private parts of the public modules beside this folder, and what all rooms build on."""
