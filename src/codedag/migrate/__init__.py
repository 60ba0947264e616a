"""Put variants in place, guard and check them, take them back."""
