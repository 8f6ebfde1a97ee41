//! The admin socket: where it is, who may connect, and how a socket left
//! behind is told from one that a host answers on.

use std::fs::{File, Permissions};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use axum::serve::Listener;
use tokio::net::{UnixListener, UnixStream};

/// The longest path that fits a socket's address.
const MAX_SOCKET_PATH: usize = 107;

/// Why there is no admin socket.
#[derive(Debug, thiserror::Error)]
pub enum AdminSocketError {
    /// A host answers there.
    #[error(
        "a host is running on this state_dir already (it answers on {}); stop it, or give this one a state_dir of its own",
        .0.display()
    )]
    Taken(PathBuf),
    /// The system says no.
    #[error("the admin socket {} cannot be made", .0.display())]
    Io(PathBuf, #[source] std::io::Error),
}

/// The bound socket. Its file goes when this does.
#[derive(Debug)]
pub struct AdminSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl AdminSocket {
    /// Binds `path`, in a folder that is the host's alone: that is what closes
    /// the moment between bind and chmod. The store must be open already: its
    /// lock keeps two hosts from clearing each other's sockets away.
    ///
    /// # Errors
    /// When a host answers there, or the socket cannot be made.
    pub async fn bind(path: &Path) -> Result<Self, AdminSocketError> {
        let failed = |cause| AdminSocketError::Io(path.to_path_buf(), cause);
        match connect(path).await {
            Ok(_answers) => return Err(AdminSocketError::Taken(path.to_path_buf())),
            Err(cause) if cause.kind() == ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path).map_err(failed)?;
            }
            Err(cause) if cause.kind() == ErrorKind::NotFound => {}
            Err(cause) => return Err(failed(cause)),
        }
        let short = ShortPath::of(path).map_err(failed)?;
        let listener = UnixListener::bind(&short.path).map_err(failed)?;
        std::fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed)?;
        Ok(Self {
            listener,
            path: path.to_path_buf(),
        })
    }

    pub(super) fn listener(self) -> OwnersOnly {
        OwnersOnly(self)
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        // It may be gone already; the next start clears it away otherwise.
        let _gone = std::fs::remove_file(&self.path);
    }
}

/// Connects to a host's admin socket.
pub(super) async fn connect(path: &Path) -> std::io::Result<UnixStream> {
    let short = ShortPath::of(path)?;
    UnixStream::connect(&short.path).await
}

/// Lets in the user the host runs as, and root. The folder's mode says the
/// same; this holds when somebody opened it up.
pub(super) struct OwnersOnly(AdminSocket);

impl Listener for OwnersOnly {
    type Io = UnixStream;
    type Addr = tokio::net::unix::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = Listener::accept(&mut self.0.listener).await;
            let own = rustix::process::geteuid().as_raw();
            if stream
                .peer_cred()
                .is_ok_and(|peer| may_connect(peer.uid(), own))
            {
                return (stream, address);
            }
            tracing::warn!("another user tried the admin socket");
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.0.listener.local_addr()
    }
}

fn may_connect(peer: u32, own: u32) -> bool {
    peer == own || peer == 0
}

/// A socket's path that fits its address: the folder is named by a descriptor
/// of ours when its own name is too long.
struct ShortPath {
    path: PathBuf,
    /// The name holds for as long as this is open.
    _folder: Option<File>,
}

impl ShortPath {
    fn of(path: &Path) -> std::io::Result<Self> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(ErrorKind::InvalidInput.into());
        };
        if path.as_os_str().len() <= MAX_SOCKET_PATH {
            return Ok(Self {
                path: path.to_path_buf(),
                _folder: None,
            });
        }
        let folder = File::open(folder)?;
        let alias = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
        Ok(Self {
            path: alias.join(name),
            _folder: Some(folder),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn the_owner_and_root_may_connect() {
        let check = |peer, own, expected| assert_eq!(may_connect(peer, own), expected);
        check(1000, 1000, true);
        check(0, 1000, true);
        check(1001, 1000, false);
        check(1000, 0, false);
    }

    #[tokio::test]
    async fn a_socket_left_behind_is_replaced_and_a_living_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let living = AdminSocket::bind(&path).await.unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        let second = AdminSocket::bind(&path).await.unwrap_err();
        assert!(matches!(second, AdminSocketError::Taken(_)), "{second}");
        assert!(connect(&path).await.is_ok());
        drop(living);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn what_is_no_socket_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        std::fs::create_dir(&path).unwrap();
        assert!(AdminSocket::bind(&path).await.is_err());
        assert!(path.is_dir());
    }

    #[tokio::test]
    async fn a_deep_folder_has_a_socket_too() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("a".repeat(100)).join("b".repeat(100));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("admin.sock");
        let _socket = AdminSocket::bind(&path).await.unwrap();
        assert!(connect(&path).await.is_ok());
    }
}
