//! Bodies that never come to their end, each in its own way.

use std::convert::Infallible;

use futures_util::{StreamExt, stream};
use http_body::Frame;
use http_body_util::StreamBody;

use super::*;

const SOON: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(600);

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
    let read = read(StreamBody::new(Box::pin(dripping)), usize::MAX, patience).await;
    assert!(matches!(read, Err(Failure::Slow)), "{read:?}");
}

#[tokio::test]
async fn what_stands_still_is_given_up_before_its_time_is_over() {
    let still = stream::pending::<Result<Frame<Bytes>, Infallible>>();
    let patience = Patience {
        idle: SOON,
        whole: LONG,
    };
    let read = read(StreamBody::new(still), usize::MAX, patience).await;
    assert!(matches!(read, Err(Failure::Slow)), "{read:?}");
}
