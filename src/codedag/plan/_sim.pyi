Copies = tuple[bytes, bytes, bytes, bytes, bytes]

class Model:
    rows: bytes
    quantum: float
    plain: bool
    costs: bytes
    edges: tuple[bytes, bytes, bytes, bytes, bytes, bytes]
    def __init__(
        self,
        n: int,
        k: int,
        src: object,
        dst: object,
        flow: object,
        seconds: object,
        nbytes: object,
        scratch: object,
        group: object,
        lane: object,
        latency: object,
        rate: object,
        capacity: object,
    ) -> None: ...
    def rank(self, how: int, copying: float, /) -> bytes: ...
    def mixed(self) -> bytes: ...
    def sorted(self, key: bytes, sign: int, /) -> bytes: ...
    def ahead(self) -> bytes: ...
    def path_bound(self, ahead: bytes, /) -> int: ...
    def prices(self, rounds: int, /) -> tuple[float, bytes]: ...
    def lists(
        self,
        order: bytes,
        ahead: bytes,
        ahead_weight: float,
        price: bytes,
        price_weight: float,
        fixed: bytes,
        gaps: bool,
        unlimited: bool,
        copy_weight: float,
        /,
    ) -> tuple[int, bytes, bytes] | None: ...
    def tails(self, place: bytes, order: bytes, /) -> bytes: ...
    def ranked(self, place: bytes, tails: bytes, /) -> bytes: ...
    def look_from(self, place: bytes, tails: bytes, /) -> bytes: ...
    def simulate(self, place: bytes, order: bytes, /) -> int: ...
    def schedule(self, place: bytes, order: bytes, /) -> tuple[int, bytes, Copies]: ...
    def anneal(
        self,
        place: bytes,
        order: bytes,
        ahead: bytes,
        total: float,
        allowed: float,
        hot: float,
        cold: float,
        clusters: float,
        seed: int,
        deadline: float,
        /,
    ) -> tuple[int, bytes, bytes, float, bool]: ...
    def replay(self, place: bytes, end: bytes, copies: Copies, /) -> tuple[bytes, bytes, bytes, bytes]: ...
    def peaks(self, place: bytes, start: bytes, end: bytes, copies: Copies, /) -> bytes: ...
