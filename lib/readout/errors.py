"""Every error that bad input raises: one line that names the argument, its value and what would be right."""


class ReadoutError(ValueError):
    """Base of all errors below; the message is one line, fit to be shown to a user as it is."""


class ParameterError(ReadoutError):
    """A parameter is unknown, of the wrong type or out of range."""


class AssetError(ReadoutError):
    """A model or data set is missing, has another digest than recorded, or is in a refused format."""


class ArchitectureError(ReadoutError):
    """The blocks or the final norm of a model could not be found."""


class TextError(ReadoutError):
    """A text is empty, or holds no token."""


class TooFewError(ReadoutError):
    """There are fewer samples, tokens or views than the estimator needs."""


class NonFiniteError(ReadoutError):
    """States hold NaN or infinite values."""


class DegenerateError(ReadoutError):
    """The states carry no variation to measure (identical tokens, constant features, zero norm)."""


class RunError(ReadoutError):
    """A notebook did not run to its end; the message is one line that names the cell."""
