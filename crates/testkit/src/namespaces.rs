//! Machines of a cluster as network namespaces behind one bridge: a machine can lose its power, so that no end of its
//! connections ever leaves it. Needs root and `ip` (iproute2).
//!
//! The bridge is in a namespace of its own: the machine's rules for forwarded packets do not hold there.

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
        let made = network.make_bridge();
        match made.and_then(|()| (1..=machines).try_for_each(|id| network.power_on(id))) {
            Ok(()) => Some(network),
            Err(why) => {
                let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
                assert!(!ci, "network namespaces cannot be made: {why}");
                eprintln!("SKIPPED: network namespaces cannot be made: {why}");
                None
            }
        }
    }

    /// The bridge, and a link from it to the tests.
    fn make_bridge(&self) -> Result<(), String> {
        let (name, subnet) = (&self.name, &self.subnet);
        let hub = self.hub();
        ip(&format!("netns add {hub}"))?;
        ip(&format!("-n {hub} link add bridge type bridge"))?;
        ip(&format!("-n {hub} link set bridge up"))?;
        ip(&format!("link add {name} type veth peer name tests netns {hub}"))?;
        ip(&format!("-n {hub} link set tests master bridge up"))?;
        ip(&format!("addr add {subnet}.254/24 dev {name}"))?;
        ip(&format!("link set {name} up"))
    }

    fn hub(&self) -> String {
        format!("{}-hub", self.name)
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
        ip(&format!("-n {} link set to-{id} down", self.hub())).expect("a link");
    }

    /// Forgets every connection of the machine, as a kernel that ends does.
    pub fn power_off(&mut self, id: u32) {
        ip(&format!("netns del {}-{id}", self.name)).expect("a namespace");
        // The kernel removes the namespace later, and its link with it.
        let _ = ip(&format!("-n {} link del to-{id}", self.hub()));
        self.machines.retain(|machine| *machine != id);
    }

    /// The machine again, with its earlier address and no connection.
    pub fn power_on(&mut self, id: u32) -> Result<(), String> {
        let (name, subnet) = (&self.name, &self.subnet);
        let machine = format!("{name}-{id}");
        ip(&format!("netns add {machine}"))?;
        self.machines.push(id);
        self.machines.sort_unstable();
        let hub = self.hub();
        ip(&format!("-n {hub} link add to-{id} type veth peer name eth0 netns {machine}"))?;
        ip(&format!("-n {hub} link set to-{id} master bridge up"))?;
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
        let _ = ip(&format!("netns del {}", self.hub()));
    }
}

fn ip(arguments: &str) -> Result<(), String> {
    match Command::new("ip").args(arguments.split_whitespace()).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("ip (Debian: iproute2): {error}")),
    }
}
