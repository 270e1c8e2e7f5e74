//! What happens to members. A majority of them runs and is connected at any time.

use std::cell::Cell;
use std::time::Duration;

use testkit::Live;
use testkit::register::Register;
use types::Dice;

use super::super::{FIVE, soon};
use super::Soak;
use super::stall::Progress;

/// Kinds of faults; each of them comes once before any comes again.
pub(super) const KINDS: u32 = 6;

/// Until enough is written, and every kind of fault was there. Returns how many there were.
pub(super) async fn of_members(
    live: &mut Live,
    (register, progress): (&Register, &mut Progress),
    soak: &Soak,
    dice: &mut Dice,
    over: &Cell<bool>,
) -> u32 {
    let (mut faults, mut deck) = (0, Vec::new());
    progress.served(live, register, 0).await;
    while faults < soak.faults || register.count().unwrap() < soak.cycles {
        let written = register.count().unwrap();
        progress.say(register, soak.cycles);
        if deck.is_empty() {
            deck = (0..KINDS).collect();
        }
        let kind = deck.swap_remove(dice.below(deck.len()));
        let (leader, _) = live.agreement(FIVE).await;
        let anybody = FIVE[dice.below(FIVE.len())];
        let id = if dice.roll().is_multiple_of(2) { leader } else { anybody };
        // Two members are a minority of five.
        let second = FIVE[(id as usize + dice.below(FIVE.len() - 1)) % FIVE.len()];
        let pause = Duration::from_millis(200 + dice.roll() % 800);
        tokio::time::sleep(soak.rest * (dice.roll() % 4) as u32).await;
        eprintln!("{written} writes; fault {kind} at {id} (and {second}), {pause:?}");
        match kind {
            0 => restart(live, &[id], &[]).await,
            1 => restart(live, &[id], &[id]).await,
            2 => restart(live, &[id, second], &[second]).await,
            3 => paused(live, &[id], pause).await,
            4 => paused(live, &[id, second], pause).await,
            _ => cut(live, &[id, second], pause).await,
        }
        faults += 1;
        // Processes that have just been started do not listen yet, and an empty disk has to be filled.
        live.statuses_that(FIVE, |all| all.iter().all(|status| !status.blank)).await;
        live.agreement(FIVE).await;
        // Now and then the next fault comes while a leader takes office. Not always: if a majority loses its copies in a row of
        // faults, every lock must expire, and each new leader waits for that from its beginning.
        if !dice.roll().is_multiple_of(3) {
            progress.served(live, register, register.count().unwrap()).await;
        }
    }
    over.set(true);
    faults
}

/// `lost`: these members come back with an empty data directory.
async fn restart(live: &mut Live, ids: &[u32], lost: &[u32]) {
    live.kill_all(ids).await;
    for &id in lost {
        std::fs::remove_dir_all(live.cluster.data_directory(id)).unwrap();
        std::fs::create_dir_all(live.cluster.data_directory(id)).unwrap();
    }
    for &id in ids {
        live.cluster.start(id).unwrap();
    }
}

async fn paused(live: &Live, ids: &[u32], pause: Duration) {
    for &id in ids {
        live.cluster.pause(id).unwrap();
    }
    tokio::time::sleep(pause).await;
    for &id in ids {
        live.cluster.resume(id).unwrap();
    }
}

async fn cut(live: &Live, ids: &[u32], pause: Duration) {
    let names = |ids: Vec<u32>| ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let others = FIVE.iter().copied().filter(|id| !ids.contains(id)).collect();
    let _ = live.ctl(&["chaos", "cut", &names(ids.to_vec()), &names(others)]).await;
    tokio::time::sleep(pause).await;
    soon(async { while !live.ctl(&["chaos", "heal"]).await.status.success() {} }).await;
}
