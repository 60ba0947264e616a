"""How we get into user code: rewriter, sites, import hook, code swap."""
