//! How long readers of committed records are held up, in the eyes of librdkafka.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use cluster::read::{Ends, Isolation};

/// How often it looks.
const EVERY: Duration = Duration::from_millis(20);

/// One look: for each partition how far readers of committed records get, and how far records reach.
type Sight = (Vec<i64>, Vec<i64>);

/// Looks at a topic until it is dropped.
///
/// A reader of committed records waits where the last stable offset stands still below the high watermark.
pub(super) struct Watch {
    longest: Arc<Mutex<Duration>>,
    _goes_on: Sender<()>,
    _watching: JoinHandle<()>,
}

impl Watch {
    pub(super) fn start(bootstrap: &str, topic: &str) -> Self {
        let ends = |isolation| Ends::of(bootstrap, topic, isolation).unwrap();
        let (committed, all) = (ends(Isolation::Committed), ends(Isolation::Uncommitted));
        let (goes_on, told) = mpsc::channel();
        let longest = Arc::new(Mutex::new(Duration::ZERO));
        let told_to = longest.clone();
        let watching = thread::spawn(move || {
            let mut stalls = Stalls::default();
            while told.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                // In this order: what is committed between the two looks must not seem to wait.
                let sight = (committed.now().unwrap(), all.now().unwrap());
                let stall = stalls.longest(&sight, Instant::now());
                let mut longest = told_to.lock().unwrap();
                *longest = stall.max(*longest);
            }
        });
        Self { longest, _goes_on: goes_on, _watching: watching }
    }

    /// The longest wait since this was asked last.
    pub(super) fn take_longest(&self) -> Duration {
        std::mem::take(&mut *self.longest.lock().unwrap())
    }
}

/// Where each partition stands, and since when.
#[derive(Default)]
struct Stalls {
    stands: Vec<(i64, Instant)>,
}

impl Stalls {
    fn longest(&mut self, (committed, all): &Sight, now: Instant) -> Duration {
        self.stands.resize(committed.len(), (-1, now));
        let stands = self.stands.iter_mut().zip(committed.iter().zip(all));
        let stall = |((offset, since), (committed, all)): (&mut (i64, Instant), (&i64, &i64))| {
            if committed >= all || committed != offset {
                (*offset, *since) = (*committed, now);
            }
            now - *since
        };
        stands.map(stall).max().unwrap_or_default()
    }
}

#[test]
fn a_stall_is_to_stand_still_below_the_end() {
    let (start, mut stalls) = (Instant::now(), Stalls::default());
    let mut at = |seconds, sight: Sight| stalls.longest(&sight, start + Duration::from_secs(seconds)).as_secs();
    assert_eq!(at(0, (vec![5, 5], vec![5, 5])), 0);
    assert_eq!(at(9, (vec![5, 5], vec![5, 5])), 0);
    assert_eq!(at(11, (vec![5, 5], vec![6, 5])), 2);
    assert_eq!(at(12, (vec![6, 5], vec![9, 5])), 0);
    assert_eq!(at(15, (vec![6, 5], vec![9, 9])), 3);
}
