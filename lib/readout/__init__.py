"""Where in a language model is the information, and what does it take to read it out?"""

__version__ = "0.1.0"
