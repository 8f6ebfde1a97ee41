//! Bodies that never come to their end, each in its own way.

use std::convert::Infallible;

use futures_util::{StreamExt, stream};
use http_body::Frame;
use http_body_util::StreamBody;

use super::*;
use crate::chant::limits::{LimitSettings, Limits};
use crate::chant::log::LogLimits;
use crate::chant::room::RoomLimits;
use crate::telemetry::Limit;

const SOON: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(600);

/// Room for this many bytes.
fn held(most: usize) -> Held {
    let limits = Limits::new(LimitSettings {
        requests_per_box: 1,
        requests_per_plugin: 1,
        instances_per_box: 1,
        instance_wait: SOON,
        room: RoomLimits {
            per_box: most,
            per_plugin: most,
            all: usize::MAX,
        },
        log: LogLimits {
            per_box: 1,
            per_plugin: 1,
        },
        failures_per_box: 1,
    });
    limits.room(None, None)
}

#[tokio::test]
async fn drops_do_not_buy_time_without_end() {
    let dripping = stream::repeat(()).then(|()| async {
        tokio::task::yield_now().await;
        Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"x")))
    });
    let patience = Patience {
        idle: LONG,
        whole: SOON,
    };
    let read = read(
        StreamBody::new(Box::pin(dripping)),
        usize::MAX,
        patience,
        &mut held(usize::MAX),
    )
    .await;
    assert!(matches!(read, Err(Failure::Slow)), "{read:?}");
}

#[tokio::test]
async fn what_stands_still_is_given_up_before_its_time_is_over() {
    let still = stream::pending::<Result<Frame<Bytes>, Infallible>>();
    let patience = Patience {
        idle: SOON,
        whole: LONG,
    };
    let read = read(
        StreamBody::new(still),
        usize::MAX,
        patience,
        &mut held(usize::MAX),
    )
    .await;
    assert!(matches!(read, Err(Failure::Slow)), "{read:?}");
}

#[tokio::test]
async fn there_is_room_for_a_body_before_it_is_read() {
    let patience = Patience {
        idle: LONG,
        whole: LONG,
    };
    let over = |read: Result<Bytes, Failure>| match read {
        Err(Failure::Over(over)) => Some(over.limit),
        Ok(_) | Err(_) => None,
    };
    // Declared: not a byte of it is asked for.
    let whole = http_body_util::Full::new(Bytes::from(vec![b'x'; 101]));
    let taken = read(whole, 1000, patience, &mut held(100)).await;
    assert_eq!(over(taken), Some(Limit::BufferedBytesPerBox));
    // Not declared: as it comes.
    let chunks = stream::repeat(())
        .map(|()| Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"0123456789"))));
    let taken = read(StreamBody::new(chunks), 1000, patience, &mut held(100)).await;
    assert_eq!(over(taken), Some(Limit::BufferedBytesPerBox));
    let short = http_body_util::Full::new(Bytes::from_static(b"short"));
    let taken = read(short, 1000, patience, &mut held(5)).await;
    assert_eq!(taken.unwrap(), "short");
}
