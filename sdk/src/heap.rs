//! Where a plugin's values live. An instance answers two calls and is thrown
//! away, so what it lets go of is seldom worth finding again: values are laid
//! end to end in an arena that is part of the module's memory from the start.
//! What does not fit goes to the standard allocator, which grows that memory.
//!
//! Growing is what this saves: the host pays two changes of page protection
//! for each instance that grows its memory, a third of what a fresh instance
//! costs.

#![expect(
    unsafe_code,
    reason = "an allocator is an unsafe trait; the proofs stand beside each use"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, UnsafeCell};

/// What two calls about a request without a body take, several times over. It
/// counts towards the memory that the plugin's manifest asks for.
#[cfg(target_family = "wasm")]
const ARENA: usize = 128 * 1024;

#[cfg(target_family = "wasm")]
#[global_allocator]
static HEAP: Heap<ARENA> = Heap::new();

/// An arena, and the standard allocator behind it.
pub(crate) struct Heap<const SIZE: usize> {
    arena: UnsafeCell<[u8; SIZE]>,
    /// How much of the arena is laid out; what lies behind it is free.
    used: Cell<usize>,
}

// SAFETY: a core module of this target has one thread: shared memory is a
// feature that neither the target has switched on nor the host lets in.
#[cfg(target_family = "wasm")]
unsafe impl<const SIZE: usize> Sync for Heap<SIZE> {}

impl<const SIZE: usize> Heap<SIZE> {
    pub(crate) const fn new() -> Self {
        Self {
            arena: UnsafeCell::new([0; SIZE]),
            used: Cell::new(0),
        }
    }

    fn base(&self) -> *mut u8 {
        self.arena.get().cast()
    }

    /// Where in the arena a pointer of ours stands; none when it is not ours.
    fn place(&self, pointer: *mut u8) -> Option<usize> {
        let place = pointer.addr().checked_sub(self.base().addr())?;
        (place < SIZE).then_some(place)
    }

    /// Takes room at the end of what is laid out.
    fn take(&self, layout: Layout) -> Option<*mut u8> {
        let base = self.base().addr();
        let start = base.checked_add(self.used.get())?;
        let place = start.checked_next_multiple_of(layout.align())? - base;
        let end = place.checked_add(layout.size())?;
        // A value without bytes must not stand where the arena has ended.
        if end > SIZE || place >= SIZE {
            return None;
        }
        self.used.set(end);
        Some(self.base().wrapping_add(place))
    }
}

// SAFETY: `take` gives out stretches of the arena that are aligned as asked,
// lie in it whole, and begin behind everything that was given out and is still
// held: `used` goes back only over the stretch that ends there, when that is
// let go of or made smaller. Whatever is not in the arena came from `System`
// and goes back to it with the layout it came with.
unsafe impl<const SIZE: usize> GlobalAlloc for Heap<SIZE> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match self.take(layout) {
            Some(pointer) => pointer,
            // SAFETY: the caller's promise is the same for both.
            None => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        match self.place(pointer) {
            Some(place) if place + layout.size() == self.used.get() => self.used.set(place),
            Some(_) => {}
            // SAFETY: it is not in the arena, so it came from `System`.
            None => unsafe { System.dealloc(pointer, layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match self.take(layout) {
            Some(pointer) => {
                // SAFETY: `take` gave out so many bytes. They may have been
                // used before.
                unsafe { pointer.write_bytes(0, layout.size()) };
                pointer
            }
            // SAFETY: as for `alloc`.
            None => unsafe { System.alloc_zeroed(layout) },
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Some(place) = self.place(pointer) else {
            // SAFETY: it is not in the arena, so it came from `System`.
            return unsafe { System.realloc(pointer, layout, size) };
        };
        let is_last = place + layout.size() == self.used.get();
        if is_last && size <= SIZE - place {
            self.used.set(place + size);
            return pointer;
        }
        if size <= layout.size() {
            return pointer;
        }
        // SAFETY: the caller promises that this size is right for the
        // alignment.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: the size is not zero: it is more than the old one.
        let moved = unsafe { self.alloc(wanted) };
        if !moved.is_null() {
            // SAFETY: both are whole and held, and do not overlap; the new one
            // is the larger. The old one is let go of as it was taken.
            unsafe {
                moved.copy_from_nonoverlapping(pointer, layout.size());
                self.dealloc(pointer, layout);
            }
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small heap, and what is held of it.
    #[derive(Default)]
    struct Held(Vec<(*mut u8, Layout, u8)>);

    impl Held {
        /// Each value still holds what was written to it, alone.
        fn check(&self) {
            for (pointer, layout, byte) in &self.0 {
                assert_eq!(pointer.addr() % layout.align(), 0);
                // SAFETY: held, and written whole.
                let bytes = unsafe { std::slice::from_raw_parts(*pointer, layout.size()) };
                assert!(bytes.iter().all(|each| each == byte));
            }
        }
    }

    #[test]
    fn values_keep_apart_whatever_is_taken_grown_and_let_go_of() {
        let heap = Heap::<1024>::new();
        let mut held = Held::default();
        // A fixed walk through the four calls (Knuth's MMIX generator).
        let mut state = 1_u64;
        let mut draw = |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        for step in 0..20_000_usize {
            let byte = u8::try_from(step % 251).unwrap();
            match draw(4) {
                0 | 1 if held.0.len() < 24 => {
                    let layout = Layout::from_size_align(1 + draw(90), 1 << draw(5)).unwrap();
                    // SAFETY: a layout with bytes; all of it is written.
                    let pointer = unsafe {
                        let pointer = if draw(2) == 0 {
                            heap.alloc(layout)
                        } else {
                            let pointer = heap.alloc_zeroed(layout);
                            let bytes = std::slice::from_raw_parts(pointer, layout.size());
                            assert!(bytes.iter().all(|byte| *byte == 0));
                            pointer
                        };
                        pointer.write_bytes(byte, layout.size());
                        pointer
                    };
                    held.0.push((pointer, layout, byte));
                }
                2 if !held.0.is_empty() => {
                    let index = draw(held.0.len());
                    let (pointer, layout, before) = held.0[index];
                    let size = 1 + draw(200);
                    // SAFETY: held under this layout; what is new is written.
                    let pointer = unsafe {
                        let pointer = heap.realloc(pointer, layout, size);
                        let kept = layout.size().min(size);
                        let bytes = std::slice::from_raw_parts(pointer, kept);
                        assert!(bytes.iter().all(|each| *each == before));
                        pointer.write_bytes(byte, size);
                        pointer
                    };
                    let layout = Layout::from_size_align(size, layout.align()).unwrap();
                    held.0[index] = (pointer, layout, byte);
                }
                _ if !held.0.is_empty() => {
                    let index = draw(held.0.len());
                    let (pointer, layout, _) = held.0.swap_remove(index);
                    // SAFETY: held under this layout.
                    unsafe { heap.dealloc(pointer, layout) };
                }
                _ => {}
            }
            held.check();
        }
        for (pointer, layout, _) in held.0 {
            // SAFETY: held under this layout.
            unsafe { heap.dealloc(pointer, layout) };
        }
    }

    #[test]
    fn the_arena_is_used_first_and_its_end_is_used_again() {
        let heap = Heap::<256>::new();
        let layout = Layout::from_size_align(100, 1).unwrap();
        // SAFETY: a layout with bytes, and each is let go of once.
        unsafe {
            let first = heap.alloc(layout);
            let second = heap.alloc(layout);
            assert!(heap.place(first).is_some() && heap.place(second).is_some());
            let beyond = heap.alloc(layout);
            assert_eq!(heap.place(beyond), None);
            heap.dealloc(beyond, layout);
            // It grows where it stands, as long as it fits.
            assert_eq!(heap.realloc(second, layout, 150), second);
            let layout = Layout::from_size_align(150, 1).unwrap();
            heap.dealloc(second, layout);
            assert_eq!(heap.alloc(layout), second);
        }
    }
}
