use algorithms::catalog::{self, Row, Visitor};
use algorithms::{Election, Rounds};
use member::Member;
use model::members::{Budget, Members};

struct W(bool, usize, Budget);
impl Visitor for W {
    type Output = ();
    fn election<E: Election>(self, row: &'static Row) {
        let model = if self.0 {
            Members::<Member<E>>::cold(row, self.1, self.2)
        } else {
            Members::<Member<E>>::settled(row, self.1, self.2)
        };
        let mut max = 0;
        let mut bad = 0;
        for seed in 0..1000 {
            let w = model.walk(seed, 60, 2000);
            match w.rest_after {
                Some(n) if w.agreed => max = max.max(n),
                _ => {
                    bad += 1;
                    if bad == 1 {
                        println!("{} seed {seed} rest {:?} agreed {}:", row.name, w.rest_after, w.agreed);
                        let k = w.trace.len();
                        println!("{}", w.trace[..70.min(k)].join("\n"));
                        println!("...");
                        println!("{}", w.trace[k.saturating_sub(25)..].join("\n"));
                    }
                }
            }
        }
        println!("{} n={} cold {}: bad {bad} of 1000, slowest {max}", row.name, self.1, self.0);
    }
    fn rounds<R: Rounds>(self, _: &'static Row) {}
}

const NOTHING: Budget = Budget { crashes: 0, restarts: 0, suspicions: 0, early: 0, elects: 0, beats: 0 };

#[test]
fn walks() {
    for row in catalog::ROWS {
        catalog::dispatch(row, W(true, 3, NOTHING));
        catalog::dispatch(
            row,
            W(false, 3, Budget { crashes: 1, restarts: 1, suspicions: 1, elects: 1, early: 1, beats: 1 }),
        );
        catalog::dispatch(
            row,
            W(false, 4, Budget { crashes: 2, restarts: 2, suspicions: 1, elects: 1, early: 1, beats: 1 }),
        );
    }
}
