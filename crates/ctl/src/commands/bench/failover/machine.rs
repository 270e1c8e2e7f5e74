//! What the machine did during a trial: a process that is not scheduled delays the failover.

use std::fs::read_to_string;

use serde::Serialize;

/// The kernel's counters since boot, or their growth. `None` where the kernel has no such counter.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
#[allow(clippy::struct_field_names)] // the unit is part of the name
pub(super) struct Machine {
    /// A hypervisor ran another guest, on any processor. Counted in steps of 10 ms.
    pub(super) stolen_ms: Option<f64>,
    /// A process was ready and waited for a processor.
    pub(super) cpu_wait_ms: Option<f64>,
    /// A process waited for a disk.
    pub(super) io_wait_ms: Option<f64>,
}

/// The kernel's `USER_HZ`, the same on all of Linux.
const TICK_MS: f64 = 10.0;

impl Machine {
    pub(super) fn now() -> Self {
        let pressure = |of: &str| read_to_string(format!("/proc/pressure/{of}")).ok().and_then(|text| total_ms(&text));
        Machine {
            stolen_ms: read_to_string("/proc/stat").ok().and_then(|text| stolen_ms(&text)),
            cpu_wait_ms: pressure("cpu"),
            io_wait_ms: pressure("io"),
        }
    }

    pub(super) fn since(self, before: Machine) -> Machine {
        let grown = |now: Option<f64>, before: Option<f64>| Some((now? - before?).max(0.0));
        Machine {
            stolen_ms: grown(self.stolen_ms, before.stolen_ms),
            cpu_wait_ms: grown(self.cpu_wait_ms, before.cpu_wait_ms),
            io_wait_ms: grown(self.io_wait_ms, before.io_wait_ms),
        }
    }

    /// Empty if the kernel has no counters.
    pub(super) fn in_words(self) -> String {
        let said = [
            (self.stolen_ms, "stolen by the hypervisor"),
            (self.cpu_wait_ms, "waiting for a processor"),
            (self.io_wait_ms, "waiting for a disk"),
        ];
        let said = said.iter().filter_map(|(ms, what)| ms.map(|ms| format!("{ms:.1} ms {what}")));
        said.collect::<Vec<_>>().join(", ")
    }
}

/// `cpu  user nice system idle iowait irq softirq steal ...`
fn stolen_ms(stat: &str) -> Option<f64> {
    let ticks: f64 = stat.lines().next()?.split_whitespace().nth(8)?.parse().ok()?;
    Some(ticks * TICK_MS)
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=MICROSECONDS`
fn total_ms(pressure: &str) -> Option<f64> {
    let some = pressure.lines().find(|line| line.starts_with("some "))?;
    let micros: f64 = some.rsplit_once("total=")?.1.parse().ok()?;
    Some(micros / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_counters_are_read_and_missing_ones_are_not_zero() {
        assert_eq!(stolen_ms("cpu  10 20 30 40 50 60 70 8 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n"), Some(80.0));
        assert_eq!(stolen_ms("cpu  10 20\n"), None);
        assert_eq!(total_ms("some avg10=2.87 avg60=1.0 avg300=4.0 total=1500\nfull avg10=0 total=9\n"), Some(1.5));
        assert_eq!(total_ms(""), None);
        let (before, now) = (
            Machine { cpu_wait_ms: Some(1.0), ..Machine::default() },
            Machine { stolen_ms: Some(5.0), cpu_wait_ms: Some(3.5), io_wait_ms: None },
        );
        let grown = now.since(before);
        assert_eq!(grown, Machine { cpu_wait_ms: Some(2.5), ..Machine::default() });
        assert_eq!(grown.in_words(), "2.5 ms waiting for a processor");
    }
}
