//! What the guest's kernel has in use, before and after a run of the test's programs.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, ensure};

use super::tasks::{Files, files};

/// A quantity, and how much more of it may be in use after a run.
struct Quantity {
    name: &'static str,
    unit: &'static str,
    /// What runs of a module without leaks have shown at most.
    usual: u64,
    limit: u64,
}

/// In the order of [`Amounts::used`].
static QUANTITIES: [Quantity; 6] = [
    Quantity { name: "memory", unit: "KiB", usual: 200, limit: 1024 },
    Quantity { name: "slab", unit: "KiB", usual: 100, limit: 512 },
    Quantity { name: "objects of users", unit: "", usual: 0, limit: 0 },
    Quantity { name: "pinned pages", unit: "", usual: 0, limit: 0 },
    Quantity { name: "module's use count", unit: "", usual: 0, limit: 0 },
    // Linux 6.12 counts them in steps of 32, up or down.
    Quantity { name: "open files", unit: "", usual: 0, limit: 64 },
];

/// Number of slab caches that an error names.
const CACHES: usize = 3;

/// Returns the shell line that prints all quantities, for root. The kernel first frees what it only
/// keeps in case that it is needed again.
pub(super) fn script(model: &str) -> String {
    format!(
        "echo 3 >/proc/sys/vm/drop_caches; for cache in /sys/kernel/slab/*/shrink; do echo 1 >$cache; done; \
         cat /proc/sys/vm/stat_refresh; head -n 5000 /proc/meminfo /proc/zoneinfo /proc/vmstat /proc/modules \
         /proc/sys/fs/file-nr /proc/slabinfo /sys/class/{model}/{model}0/holders"
    )
}

/// The same without the module, which has no users then.
pub(super) fn script_unloaded() -> String {
    script("*").replace(" /sys/class/*/*0/holders", "")
}

/// What is in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Amounts {
    used: [u64; QUANTITIES.len()],
    /// KiB of the objects of each slab cache.
    caches: BTreeMap<String, u64>,
}

impl Amounts {
    /// Parses the output of [`script`].
    pub(super) fn of(lines: &[String], module: &str) -> anyhow::Result<Amounts> {
        let files = files(lines);
        let holders = files.iter().find(|(path, _)| path.ends_with("/holders")).context("no holders")?.1;
        // The first line is a title; the size is before the use count.
        let users =
            [(holders.len() as u64).saturating_sub(1), number(&files, "/proc/modules", &[module, ""])?];
        Self::with_users(&files, users)
    }

    /// Parses the output of [`script_unloaded`].
    pub(super) fn of_unloaded(lines: &[String]) -> anyhow::Result<Amounts> {
        Self::with_users(&files(lines), [0, 0])
    }

    fn with_users(files: &Files<'_>, [objects, users]: [u64; 2]) -> anyhow::Result<Amounts> {
        let meminfo = |name| number(files, "/proc/meminfo", &[name]);
        let vmstat = |name| number(files, "/proc/vmstat", &[name]);
        // Pages that processors keep for their next allocation are not counted as free.
        let zones = files.get("/proc/zoneinfo").context("no /proc/zoneinfo")?;
        let kept =
            zones.iter().filter_map(|line| line.trim().strip_prefix("count:")?.trim().parse::<u64>().ok());
        let kept = kept.sum::<u64>() * 4;
        let used = [
            meminfo("MemTotal:")?.saturating_sub(meminfo("MemFree:")? + kept),
            meminfo("SUnreclaim:")?,
            objects,
            vmstat("nr_foll_pin_acquired")?.saturating_sub(vmstat("nr_foll_pin_released")?),
            users,
            number(files, "/proc/sys/fs/file-nr", &[])?,
        ];
        Ok(Amounts { used, caches: caches(files) })
    }

    /// Returns whether no quantity has grown beyond its limit since `before`.
    pub(super) fn are_within_limits(&self, before: &Amounts) -> bool {
        self.grown(before).all(|(quantity, _, grown)| grown <= quantity.limit)
    }

    fn grown<'a>(
        &'a self,
        before: &'a Amounts,
    ) -> impl Iterator<Item = (&'static Quantity, usize, u64)> + 'a {
        let all = QUANTITIES.iter().enumerate();
        all.map(|(at, quantity)| (quantity, at, self.used[at].saturating_sub(before.used[at])))
    }

    /// Returns a table of all quantities.
    pub(super) fn table(&self, before: &Amounts) -> String {
        let mut table =
            format!("  {:<24}{:>10}{:>10}{:>10}{:>10}\n", "in use", "before", "after", "limit", "usual");
        for (Quantity { name, unit, usual, limit }, at, _) in self.grown(before) {
            let name = if unit.is_empty() { (*name).to_owned() } else { format!("{name} ({unit})") };
            let (before, after) = (before.used[at], self.used[at]);
            // Writing to a string cannot fail.
            let _ = writeln!(
                table,
                "  {name:<24}{before:>10}{after:>10}{:>10}{:>10}",
                format!("+{limit}"),
                format!("+{usual}")
            );
        }
        table
    }

    /// Fails if a quantity has grown beyond its limit since `before`.
    pub(super) fn check(&self, before: &Amounts, when: &str) -> anyhow::Result<()> {
        let over = self.grown(before).filter(|(quantity, _, grown)| grown > &quantity.limit);
        let over: Vec<String> =
            over.map(|(quantity, at, grown)| self.excess(before, quantity, at, grown)).collect();
        ensure!(over.is_empty(), "the module keeps what it should have released {when}: {}", over.join("; "));
        Ok(())
    }

    fn excess(&self, before: &Amounts, quantity: &Quantity, at: usize, grown: u64) -> String {
        let Quantity { name, unit, limit, .. } = quantity;
        let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
        let mut text = format!(
            "{name}: {}{unit} before, {}{unit} after, {grown}{unit} more (limit {limit})",
            before.used[at], self.used[at]
        );
        let caches = self.grown_caches(before);
        if *name == "slab" && !caches.is_empty() {
            let _ = write!(text, ", most of it in {}", caches.join(", "));
        }
        text
    }

    fn grown_caches(&self, before: &Amounts) -> Vec<String> {
        let grown =
            |name: &String, kib: &u64| kib.saturating_sub(before.caches.get(name).copied().unwrap_or(0));
        let mut all: Vec<_> = self.caches.iter().map(|(name, kib)| (grown(name, kib), name)).collect();
        all.sort_by(|one, other| other.cmp(one));
        let most = all.iter().take(CACHES).filter(|(kib, _)| *kib > 0);
        most.map(|(kib, name)| format!("{name} ({kib} KiB)")).collect()
    }
}

/// Returns the number after these words at the start of a line of a file. An empty word stands for
/// any.
fn number(files: &Files<'_>, path: &str, start: &[&str]) -> anyhow::Result<u64> {
    let value = files.get(path).into_iter().flatten().find_map(|line| {
        let mut words = line.split_whitespace();
        start
            .iter()
            .all(|word| words.next().is_some_and(|found| word.is_empty() || found == *word))
            .then(|| words.next())?
    });
    let value = value.with_context(|| format!("{path} does not have {start:?}"))?;
    value.parse().with_context(|| format!("{path} has {value:?} where a number is expected"))
}

/// Returns the KiB of the objects of each slab cache.
fn caches(files: &Files<'_>) -> BTreeMap<String, u64> {
    let lines = files.get("/proc/slabinfo").into_iter().flatten();
    let cache = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (count, size) = (words.get(1)?.parse::<u64>().ok()?, words.get(3)?.parse::<u64>().ok()?);
        Some((words[0].to_owned(), count.checked_mul(size)? / 1024))
    };
    lines.filter_map(cache).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the amounts of a machine: KiB of free memory, of slab, pages kept by a processor,
    /// users with objects, pinned pages, users of the module, open files.
    fn amounts([free, slab, kept, objects, pins, users, files]: [u64; 7]) -> Amounts {
        let mut text = format!(
            "==> /proc/meminfo <==\nMemTotal: 500000 kB\nMemFree: {free} kB\nSUnreclaim: {slab} kB\n\n\
             ==> /proc/zoneinfo <==\nNode 0, zone DMA\n  pages free 3\n    cpu: 0\n              count:    {kept}\n\n\
             ==> /proc/vmstat <==\nnr_foll_pin_acquired {}\nnr_foll_pin_released 70\n\n\
             ==> /proc/modules <==\nother 4096 9 - Live 0x0\nhamlyn 253952 {users} - Live 0x0 (O)\n\n\
             ==> /proc/sys/fs/file-nr <==\n{files}\t0\t9999\n\n\
             ==> /proc/slabinfo <==\nslabinfo - version: 2.1\n# name <active_objs>\nkmalloc-1k {slab} 99 1024 4\n\
             kmalloc-8 1024 99 8 4\n\n==> /sys/class/hamlyn/hamlyn0/holders <==\nuser termini\n",
            70 + pins
        );
        (0..objects).for_each(|user| text += &format!("{user} 1\n"));
        Amounts::of(&text.lines().map(str::to_owned).collect::<Vec<_>>(), "hamlyn").unwrap()
    }

    #[test]
    fn growth_within_the_limits_passes() {
        let before = amounts([300_000, 9000, 100, 0, 0, 0, 18]);
        // The processor keeps what is not free: nothing is in use.
        for after in [[299_000, 9512, 350, 0, 0, 0, 18], [298_976, 9000, 100, 0, 0, 0, 17]] {
            let after = amounts(after);
            assert!(after.are_within_limits(&before), "{}", after.table(&before));
            after.check(&before, "").unwrap();
        }
    }

    #[test]
    fn each_quantity_over_its_limit_is_named() {
        let before = [300_000, 9000, 100, 0, 0, 0, 18];
        for (at, value, name) in [
            (0, 298_975, "memory: 199600 KiB before, 200625 KiB after, 1025 KiB more (limit 1024)"),
            (
                1,
                9513,
                "slab: 9000 KiB before, 9513 KiB after, 513 KiB more (limit 512), most of it in kmalloc-1k (513 KiB)",
            ),
            (3, 1, "objects of users: 0 before, 1 after, 1 more (limit 0)"),
            (4, 1, "pinned pages: 0 before, 1 after"),
            (5, 1, "module's use count: 0 before, 1 after"),
            (6, 83, "open files: 18 before, 83 after, 65 more (limit 64)"),
        ] {
            let mut after = before;
            after[at] = value;
            let (before, after) = (amounts(before), amounts(after));
            assert!(!after.are_within_limits(&before));
            let error = after.check(&before, "").unwrap_err().to_string();
            assert!(error.contains(name) && error.matches("(limit").count() == 1, "{error}");
        }
    }

    #[test]
    fn incomplete_answer_is_an_error() {
        let error =
            Amounts::of(&["==> /proc/meminfo <==".into(), "MemTotal: x".into()], "hamlyn").unwrap_err();
        assert_eq!(error.to_string(), "no holders");
        let error = Amounts::of_unloaded(&["==> /proc/meminfo <==".into()]).unwrap_err();
        assert!(error.to_string().contains("/proc/zoneinfo"), "{error}");
    }
}
