"""Put variants in place, guard and check them, take them back."""

from codedag.backends.supported import list_supported_functions as list_supported_functions
