"""The paper's runs: their plan, the store of their records, and the workers that train them."""
