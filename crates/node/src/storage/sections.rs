//! The content of a state file of format 2: sections, each with the bytes of one owner.
//!
//! ```text
//! number of sections u16 | each: instance u16, kind u16, version u16, length u32, bytes
//! ```
//! Sorted by instance and kind, so that the same state is always the same bytes. This code keeps a section without
//! knowing its content.

use std::collections::BTreeMap;

use types::InstanceId;

use super::frame::{Fields, Unwritable};

/// Bytes of one owner, and the version of their layout.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Section {
    pub version: u16,
    pub bytes: Vec<u8>,
}

/// All sections of a file, by instance and kind.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sections(BTreeMap<(InstanceId, u16), Section>);

impl Sections {
    pub fn get(&self, instance: InstanceId, kind: u16) -> Option<&Section> {
        self.0.get(&(instance, kind))
    }

    pub fn put(&mut self, instance: InstanceId, kind: u16, section: Section) {
        self.0.insert((instance, kind), section);
    }

    pub fn iter(&self) -> impl Iterator<Item = (InstanceId, u16, &Section)> {
        self.0.iter().map(|(&(instance, kind), section)| (instance, kind, section))
    }

    pub(super) fn remove(&mut self, instance: InstanceId, kind: u16) -> Option<Section> {
        self.0.remove(&(instance, kind))
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>, Unwritable> {
        let count = u16::try_from(self.0.len()).map_err(|_| Unwritable::Sections(self.0.len()))?;
        let mut bytes = count.to_le_bytes().to_vec();
        for (instance, kind, section) in self.iter() {
            let length = u32::try_from(section.bytes.len()).map_err(|_| Unwritable::Bytes(section.bytes.len()))?;
            bytes.extend(instance.0.to_le_bytes());
            bytes.extend(kind.to_le_bytes());
            bytes.extend(section.version.to_le_bytes());
            bytes.extend(length.to_le_bytes());
            bytes.extend(&section.bytes);
        }
        Ok(bytes)
    }

    /// `None` if the content is not exactly one sorted list of sections without duplicates.
    pub(super) fn decode(content: &[u8]) -> Option<Self> {
        let mut fields = Fields(content);
        let count = fields.u16()?;
        let mut sections: BTreeMap<(InstanceId, u16), Section> = BTreeMap::new();
        for _ in 0..count {
            let key = (InstanceId(fields.u16()?), fields.u16()?);
            let (version, length) = (fields.u16()?, fields.u32()?);
            let bytes = fields.bytes(length as usize)?.to_vec();
            if sections.last_key_value().is_some_and(|(&last, _)| last >= key) {
                return None;
            }
            sections.insert(key, Section { version, bytes });
        }
        fields.0.is_empty().then_some(Sections(sections))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(version: u16, bytes: &[u8]) -> Section {
        Section { version, bytes: bytes.to_vec() }
    }

    fn three() -> Sections {
        let mut sections = Sections::default();
        sections.put(InstanceId(300), 1, section(9, b"later"));
        sections.put(InstanceId(0), 2, section(1, b""));
        sections.put(InstanceId(0), 1, section(1, b"first"));
        sections
    }

    #[test]
    fn sections_come_back_in_order_and_the_last_put_counts() {
        let mut sections = three();
        sections.put(InstanceId(0), 2, section(2, b"again"));
        let bytes = sections.encode().unwrap();
        let read = Sections::decode(&bytes).unwrap();
        assert_eq!(read, sections);
        assert_eq!(read.encode().unwrap(), bytes);
        let order: Vec<_> = read.iter().map(|(instance, kind, _)| (instance.0, kind)).collect();
        assert_eq!(order, [(0, 1), (0, 2), (300, 1)]);
        assert_eq!(read.get(InstanceId(0), 2), Some(&section(2, b"again")));
        assert_eq!(read.get(InstanceId(1), 2), None);
        assert_eq!(Sections::decode(&[0, 0]), Some(Sections::default()));
    }

    #[test]
    fn every_cut_and_every_byte_more_is_refused() {
        let bytes = three().encode().unwrap();
        for length in 0..bytes.len() {
            assert_eq!(Sections::decode(&bytes[..length]), None, "cut to {length}");
        }
        assert_eq!(Sections::decode(&[bytes.as_slice(), &[0]].concat()), None);
    }

    #[test]
    fn a_section_twice_or_out_of_order_is_refused() {
        let list = |keys: [(u8, u8); 2]| {
            let mut bytes = vec![2, 0];
            for (instance, kind) in keys {
                bytes.extend([instance, 0, kind, 0, 1, 0, 1, 0, 0, 0, b'x']);
            }
            Sections::decode(&bytes).map(|sections| sections.iter().count())
        };
        assert_eq!(list([(0, 1), (0, 2)]), Some(2));
        assert_eq!(list([(0, 2), (1, 1)]), Some(2));
        assert_eq!(list([(0, 1), (0, 1)]), None, "twice");
        assert_eq!(list([(0, 2), (0, 1)]), None, "kinds out of order");
        assert_eq!(list([(1, 1), (0, 2)]), None, "instances out of order");
    }

    #[test]
    fn more_sections_than_can_be_counted_are_not_written() {
        let mut sections = Sections::default();
        for kind in 0..=u16::MAX {
            sections.put(InstanceId(7), kind, section(1, b""));
        }
        assert_eq!(sections.encode(), Err(Unwritable::Sections(65_536)));
    }
}
