//! Machines of a cluster as network namespaces behind one bridge: a machine can lose its power, so that no end of its
//! connections ever leaves it. Needs root and `ip` (iproute2).

use std::process::Command;

use crate::node_binary;

/// Namespaces, their links and the bridge; removed when this is dropped.
#[derive(Debug)]
pub struct Network {
    /// Unique for a test process; interface names have at most 15 characters.
    name: String,
    /// The first three bytes of every address.
    subnet: String,
    machines: Vec<u32>,
}

impl Network {
    /// A bridge with this many machines; `None`, with a message, where namespaces cannot be made. Under `CI=true` a
    /// failure.
    pub fn new(machines: u32) -> Option<Self> {
        let process = std::process::id();
        let subnet = format!("10.{}.{}", 128 + process / 250 % 100, process % 250);
        let mut network = Network { name: format!("cv{process:x}"), subnet, machines: Vec::new() };
        let bridge = network.name.clone();
        let address = format!("{}.254/24", network.subnet);
        let made = ip(&format!("link add {bridge} type bridge"))
            .and_then(|()| ip(&format!("addr add {address} dev {bridge}")))
            .and_then(|()| ip(&format!("link set {bridge} up")))
            .and_then(|()| (1..=machines).try_for_each(|id| network.power_on(id)));
        match made {
            Ok(()) => Some(network),
            Err(why) => {
                let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
                assert!(!ci, "network namespaces cannot be made: {why}");
                eprintln!("SKIPPED: network namespaces cannot be made: {why}");
                None
            }
        }
    }

    /// The addresses of the machines, with this port.
    pub fn addresses(&self, port: u16) -> Vec<String> {
        self.machines.iter().map(|id| format!("{}.{id}:{port}", self.subnet)).collect()
    }

    /// The lines of a script that starts `node` on the machine of its `--id`.
    pub(crate) fn node_on_its_machine(&self) -> String {
        let (name, node) = (&self.name, node_binary());
        let find = "for word; do [ \"$last\" = --id ] && id=$word; last=$word; done";
        format!("{find}\nexec ip netns exec {name}-$id {} \"$@\"\n", node.display())
    }

    /// Nothing leaves the machine or reaches it. Its processes are killed after this and before [`Network::power_off`].
    pub fn unplug(&self, id: u32) {
        ip(&format!("link set {}-{id} down", self.name)).expect("a link");
    }

    /// Forgets every connection of the machine, as a kernel that ends does.
    pub fn power_off(&mut self, id: u32) {
        ip(&format!("netns del {}-{id}", self.name)).expect("a namespace");
        // The kernel removes the namespace later, and its link with it.
        let _ = ip(&format!("link del {}-{id}", self.name));
        self.machines.retain(|machine| *machine != id);
    }

    /// The machine again, with its earlier address and no connection.
    pub fn power_on(&mut self, id: u32) -> Result<(), String> {
        let (name, subnet) = (&self.name, &self.subnet);
        let machine = format!("{name}-{id}");
        ip(&format!("netns add {machine}"))?;
        self.machines.push(id);
        self.machines.sort_unstable();
        ip(&format!("link add {machine} type veth peer name eth0 netns {machine}"))?;
        ip(&format!("link set {machine} master {name} up"))?;
        // The same hardware address as before: the other machines still know it.
        ip(&format!("-n {machine} link set eth0 address 02:00:00:00:00:{id:02x}"))?;
        ip(&format!("-n {machine} addr add {subnet}.{id}/24 dev eth0"))?;
        ip(&format!("-n {machine} link set eth0 up"))?;
        ip(&format!("-n {machine} link set lo up"))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for id in &self.machines {
            let _ = ip(&format!("netns del {}-{id}", self.name));
        }
        let _ = ip(&format!("link del {}", self.name));
    }
}

fn ip(arguments: &str) -> Result<(), String> {
    match Command::new("ip").args(arguments.split_whitespace()).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("ip (Debian: iproute2): {error}")),
    }
}
