//! The choice of loopback ports.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Result, bail};

/// The documented range, used when it is free.
const FIRST: u16 = 7401;
const FIRST_HTTP: u16 = 8401;
/// Below the ports that kernels assign to outgoing connections: members dial each other while they start, and a dial
/// must not get the port that another member is about to listen on.
const ELSEWHERE: std::ops::Range<u16> = 10_000..32_000;
const TRIES: usize = 200;

/// `count` consecutive free ports: from `base` if it is given, else the documented ones, else any.
pub fn free_ports(count: u32, base: Option<u16>) -> Result<Vec<u16>> {
    let count = u16::try_from(count)?;
    if let Some(base) = base {
        return match base.checked_add(count) {
            Some(_) if base > 0 => match row(base, count) {
                Ok(ports) => Ok(ports),
                Err(taken) => bail!("port {taken} of 127.0.0.1 is in use"),
            },
            _ => bail!("{count} ports from {base} on do not exist"),
        };
    }
    row(FIRST, count).or_else(|_| free_ports_elsewhere(u32::from(count)))
}

/// `count` consecutive free ports for HTTP: the documented ones, else any that are not among these.
pub fn free_http_ports(count: u32, taken: &[u16]) -> Result<Vec<u16>> {
    let apart = |ports: &Vec<u16>| ports.iter().all(|port| !taken.contains(port));
    if let Some(ports) = row(FIRST_HTTP, u16::try_from(count)?).ok().filter(apart) {
        return Ok(ports);
    }
    for _ in 0..TRIES {
        if let Some(ports) = Some(free_ports_elsewhere(count)?).filter(apart) {
            return Ok(ports);
        }
    }
    bail!("no {count} free ports in a row for HTTP on 127.0.0.1")
}

/// Free ports outside the documented range, for clusters that no operator connects to.
pub fn free_ports_elsewhere(count: u32) -> Result<Vec<u16>> {
    let count = u16::try_from(count)?;
    let span = u32::from(ELSEWHERE.end - ELSEWHERE.start - count);
    for _ in 0..TRIES {
        let dice = getrandom::u32()?;
        if let Ok(ports) = row(ELSEWHERE.start + (dice % span) as u16, count) {
            return Ok(ports);
        }
    }
    bail!("no {count} free ports in a row on 127.0.0.1")
}

/// Binds all of them at once, so that none is counted twice; returns the first port in use otherwise.
fn row(base: u16, count: u16) -> Result<Vec<u16>, u16> {
    let ports: Vec<u16> = (base..base + count).collect();
    let bind = |&port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|_| port);
    let held = ports.iter().map(bind).collect::<Result<Vec<_>, u16>>()?;
    drop(held);
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_named_and_avoided() {
        let ports = free_ports_elsewhere(3).unwrap();
        let _held = TcpListener::bind((Ipv4Addr::LOCALHOST, ports[1])).unwrap();
        let error = free_ports(3, Some(ports[0])).unwrap_err().to_string();
        assert!(error.contains(&ports[1].to_string()), "{error}");
        assert!(free_ports(3, Some(u16::MAX - 1)).is_err());
        assert!(free_ports(1, Some(0)).is_err());
    }
}
