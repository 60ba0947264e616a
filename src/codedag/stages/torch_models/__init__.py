"""Staged models from torch modules: torch.export, cuts, one program per stage; and sage7."""
