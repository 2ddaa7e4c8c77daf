class Error(Exception):
    """Why a call failed: `name` and `code` are those of CROUPIER_ERROR_... in croupier/types.h.

    `text` says what, where and what would be right.
    """

    def __init__(self, code: int, name: str, text: str) -> None:
        super().__init__(code, name, text)
        self.code = code
        self.name = name
        self.text = text

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"
