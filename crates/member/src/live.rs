//! The catalog as a member sees it: every row is an [`Election`], the synchronous ones behind a synchroniser.

use algorithms::catalog::{self, Row, Visitor};
use algorithms::{Election, Rounds};

use crate::synchroniser::Synchronised;

/// As [`Visitor`], for drivers of whole members.
pub trait MemberVisitor {
    type Output;
    fn visit<E: Election>(self, row: &'static Row) -> Self::Output;
}

pub fn dispatch<V: MemberVisitor>(row: &'static Row, visitor: V) -> V::Output {
    catalog::dispatch(row, Live(visitor))
}

struct Live<V>(V);

impl<V: MemberVisitor> Visitor for Live<V> {
    type Output = V::Output;

    fn election<E: Election>(self, row: &'static Row) -> V::Output {
        self.0.visit::<E>(row)
    }

    fn rounds<R: Rounds>(self, row: &'static Row) -> V::Output {
        self.0.visit::<Synchronised<R>>(row)
    }
}
