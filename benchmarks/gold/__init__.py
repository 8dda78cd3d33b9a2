"""Gold databases built at known days, by models of many kinds."""
