"""The functions of FEEL, by area. `table` has all of them."""
