"""The store: a contract, the transitions written once, and two databases that keep the contract."""
