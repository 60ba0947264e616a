"""The memo: what is kept of calls and items, under which key and which ambient state, and what it was made from."""
