//! The catalog as a member sees it: every row is an [`Election`], synchronous rows inside a synchroniser. This is the
//! one place where a kind of safety becomes an [`Authority`].

use algorithms::catalog::{self, Row, Visitor};
use algorithms::{Election, Rounds};

use crate::authority::{Authority, Classic, Quorum};
use crate::synchroniser::Synchronised;
use types::Safety;

/// As [`Visitor`], for drivers of whole members.
pub trait MemberVisitor {
    type Output;
    fn visit<E: Election, A: Authority>(self, row: &'static Row) -> Self::Output;
}

pub fn dispatch<V: MemberVisitor>(row: &'static Row, safety: Safety, visitor: V) -> V::Output {
    catalog::dispatch(row, Live { safety, visitor })
}

struct Live<V> {
    safety: Safety,
    visitor: V,
}

impl<V: MemberVisitor> Visitor for Live<V> {
    type Output = V::Output;

    fn election<E: Election>(self, row: &'static Row) -> V::Output {
        match self.safety {
            Safety::Classic => self.visitor.visit::<E, Classic>(row),
            Safety::Quorum => self.visitor.visit::<E, Quorum>(row),
        }
    }

    fn rounds<R: Rounds>(self, row: &'static Row) -> V::Output {
        self.election::<Synchronised<R>>(row)
    }
}
