//! The faults of `hamlyn driver-test --faults`, each with what the driver should do.

/// A fault of the card.
pub(super) struct Case {
    pub(super) name: &'static str,
    /// As of `hamlyn fault`.
    pub(super) rules: &'static str,
    /// What the driver should do.
    pub(super) wanted: &'static str,
}

const fn case(name: &'static str, rules: &'static str, wanted: &'static str) -> Case {
    Case { name, rules, wanted }
}

pub(super) static CASES: &[Case] = &[
    case("interrupts-lost", "interrupt drop", "waits can be ended; calls that need none work"),
    case("interrupts-twice", "interrupt twice", "nothing changes"),
    case("interrupts-late", "interrupt delay by=50ms", "all works, later"),
    case("interrupts-merged", "interrupt coalesce by=30ms", "all works, later"),
    case("wrong-card", "read value at=MAGIC value=0", "the probe fails and says why"),
    case("access-fails", "read value at=SCRATCH value=0 every=3", "the probe or the self-test fails"),
    case(
        "status-lies",
        "command drop nth=6\nread ones at=COMMAND_STATUS",
        "the card is stopped, and a reload helps",
    ),
    case("link-stuck", "read value at=LINK value=0", "the link stays down; all else works"),
    case("writes-lost", "write drop every=9", "calls fail, or the card is stopped"),
    case("writes-twice", "write twice every=3", "calls fail with an error"),
    case("command-refused", "command refuse status=BAD_VALUE every=4", "the call fails with an error"),
    case("command-no-memory", "command refuse status=MEMORY_FULL every=3", "the call fails: no space"),
    case("command-unknown-status", "command answer status=77 every=5", "the call fails with an error"),
    case("command-lost", "command drop nth=6", "the card is stopped, and a reload helps"),
    case("command-twice", "command twice every=2", "calls fail, or nothing changes"),
    case("slow", "access delay by=100ms every=200", "all works, later"),
    case("dma-fails", "dma fail every=11", "calls fail, or the card is stopped"),
    case("dma-write-fails", "dma fail access=write nth=3", "the card is stopped, and a reload helps"),
    case("link-flaps", "link down for=200ms every=500ms", "the link's state follows"),
    case("packets-lost", "packet drop every=3", "programs notice, or wait and can be ended"),
    case("packets-cut", "packet cut bytes=9 every=3", "the card refuses them"),
    case("packets-wrong", "packet corrupt every=2", "only their receiver is harmed"),
    case("packets-late", "packet delay by=1ms jitter=5ms rate=2000000", "all works, later"),
    case("packets-twice", "packet twice every=2\npacket reorder every=5", "programs notice at most"),
    case("fifo-full", "fifo full for=300ms every=900ms", "all works, later"),
    case("card-stuck", "card stick for=2s after=500ms every=5s", "all works, later"),
    case("card-reset", "card reset after=1s every=1s", "calls fail, and a reload helps"),
    case("card-gone", "card remove for=1000s after=1s", "calls fail, and the module can be unloaded"),
    case("clock-jumps", "clock jump by=100s every=1s", "nothing changes, or peers are given up"),
];
