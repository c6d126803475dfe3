#include "watch/dump_writer.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <functional>

#include "log/own_file.h"

extern char** environ;

namespace opscope {

namespace {

// The name of the socket that it has: of the folder, of the user, whose spools alone the process can read,
// and of what is to be run.
std::string kind_of(const std::vector<std::string>& command) {
  size_t hash = 0;
  for (size_t i = 0; i + 1 < command.size(); ++i) hash = hash * 31 + std::hash<std::string>{}(command[i]);
  const std::string& spool = command.back();
  struct stat folder{};
  stat(spool.substr(0, spool.rfind('/') + 1).c_str(), &folder);
  return "opscope-dumps-" + std::to_string(getuid()) + "-" + std::to_string(folder.st_dev) + "-" +
         std::to_string(folder.st_ino) + "-" + std::to_string(hash);
}

// That there is such a file says that the rest of the spool is complete. It is there already where the
// process has to be started again.
int write_kind(const std::string& spool, const std::string& kind) {
  NewFile file(spool + "/" + kWriterFile);
  const int error = file.write(kind);
  const int error_at_end = file.end();
  return error != 0 ? error : error_at_end;
}

// Asks only: what was bound here, for however short, a child of the program's could inherit and keep. A
// socket of that name that another user has is none.
bool is_there(const std::string& kind) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (kind.size() >= sizeof(name.sun_path)) return false;
  kind.copy(name.sun_path + 1, kind.size());  // behind a zero: no file
  const OwnFile own(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int asking = own.get();
  if (asking < 0) return false;
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + kind.size());
  // Where so many wait to be answered that no more can, the kernel does not say whose it is.
  if (connect(asking, reinterpret_cast<const sockaddr*>(&name), length) != 0) return false;
  ucred owner{};
  socklen_t size = sizeof(owner);
  return getsockopt(asking, SOL_SOCKET, SO_PEERCRED, &owner, &size) == 0 && owner.uid == getuid();
}

// Runs a program that outlives this process if need be; its first process ends at once, and is waited for.
int spawn_detached(const std::vector<std::string>& command, int output) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t files;
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_init(&files);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  // A group of its own, so that an interrupt typed at the program is not its end.
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  posix_spawn_file_actions_adddup2(&files, output, 1);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  pid_t child = 0;
  const int error = posix_spawn(&child, words[0], &files, &attributes, words.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return error;
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return 0;  // the program waits for any child, and has had it
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : ECHILD;
}

}  // namespace

int hand_to_writer(const std::vector<std::string>& command, bool again) {
  if (command.empty()) return ENOENT;  // no command to start one
  const std::string& spool = command.back();
  const std::string kind = kind_of(command), said = again ? "/dev/null" : spool + "/output";
  const OwnFile output(open(said.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | (again ? 0 : O_CREAT), 0600));
  if (output.get() < 0) return errno;
  int error = again ? 0 : write_kind(spool, kind);
  // From here on the spool may be gone at any time, because its trace is there.
  if (error == 0) error = is_there(kind) ? kWriterIsThere : spawn_detached(command, output.get());
  return error;
}

}  // namespace opscope
