//! What is waited for beside something that is polled far more often: it is
//! looked at when it has been woken itself, and not each time that the task is.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// A future that is left alone until it is woken.
pub(super) struct Aside<'a, T> {
    future: Pin<Box<dyn Future<Output = T> + Send + 'a>>,
    bell: Arc<Bell>,
    /// Rings the bell.
    ringer: Waker,
    /// Whom the bell wakes.
    task: Option<Waker>,
}

struct Bell {
    has_rung: AtomicBool,
    task: AtomicWaker,
}

impl<'a, T> Aside<'a, T> {
    pub(super) fn new(future: impl Future<Output = T> + Send + 'a) -> Self {
        let bell = Arc::new(Bell {
            // It has not been looked at yet.
            has_rung: AtomicBool::new(true),
            task: AtomicWaker::new(),
        });
        Self {
            future: Box::pin(future),
            ringer: Waker::from(Arc::clone(&bell)),
            bell,
            task: None,
        }
    }
}

impl<T> Future for Aside<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let this = &mut *self;
        let task = context.waker();
        if !this.task.as_ref().is_some_and(|told| told.will_wake(task)) {
            this.task = Some(task.clone());
            this.bell.task.register(task);
        }
        while this.bell.has_rung.swap(false, Ordering::AcqRel) {
            // The ring took the registration away. One that comes before the
            // next is seen by the loop.
            this.bell.task.register(task);
            let mut context = Context::from_waker(&this.ringer);
            if let Poll::Ready(done) = this.future.as_mut().poll(&mut context) {
                return Poll::Ready(done);
            }
        }
        Poll::Pending
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.has_rung.store(true, Ordering::Release);
        self.task.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;

    use futures_util::FutureExt;
    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn it_is_looked_at_when_it_is_woken_and_not_else() {
        let (looks, notify) = (AtomicUsize::new(0), Notify::new());
        let mut notified = Box::pin(notify.notified());
        let mut aside = Aside::new(poll_fn(|context| {
            looks.fetch_add(1, Ordering::Relaxed);
            notified.as_mut().poll(context)
        }));
        for _ in 0..5 {
            assert!((&mut aside).now_or_never().is_none());
        }
        assert_eq!(looks.load(Ordering::Relaxed), 1);
        notify.notify_one();
        assert!((&mut aside).now_or_never().is_some());
        assert_eq!(looks.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn whoever_waits_for_it_is_woken_each_time() {
        let (there, back) = (Notify::new(), Notify::new());
        let aside = Aside::new(async {
            for _ in 0..1000 {
                there.notified().await;
                back.notify_one();
            }
        });
        let rings = async {
            for _ in 0..1000 {
                there.notify_one();
                back.notified().await;
            }
        };
        // In tasks of their own each wakes the other, or neither goes on.
        tokio::join!(aside, rings);
    }

    #[tokio::test]
    async fn it_wakes_the_task_that_polled_it_last() {
        let notify = Arc::new(Notify::new());
        let heard = Arc::clone(&notify);
        let mut aside = Aside::new(async move { heard.notified().await });
        assert!((&mut aside).now_or_never().is_none());
        let waiting = tokio::spawn(aside);
        tokio::task::yield_now().await;
        notify.notify_one();
        waiting.await.unwrap();
    }

    #[test]
    fn no_ring_between_threads_is_lost() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .build()
            .unwrap();
        let (there, back) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (hears, answers) = (Arc::clone(&there), Arc::clone(&back));
        let aside = Aside::new(async move {
            for _ in 0..10_000 {
                hears.notified().await;
                answers.notify_one();
            }
        });
        let aside = runtime.spawn(aside);
        runtime.block_on(async {
            for _ in 0..10_000 {
                there.notify_one();
                back.notified().await;
            }
            aside.await.unwrap();
        });
    }
}
