"""Plans that place calls on processing units: in force, counted, put back."""
