#include "watch/dump_writer.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "log/own_file.h"

extern char** environ;

namespace opscope {

namespace {

// Starts a program that may outlive this process: an intermediate process starts it and ends at once.
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
  // An own process group, so that Ctrl-C at the program does not end it.
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
    if (errno != EINTR) return 0;  // the program waits for any child, and has reaped this one
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : ECHILD;
}

}  // namespace

int hand_to_writer(const std::vector<std::string>& command) {
  if (command.empty()) return ENOENT;  // no command to start one
  const std::string& spool = command.back();
  const OwnFile output(open((spool + "/output").c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  if (output.get() < 0) return errno;
  NewFile whole(spool + "/" + kWholeFile);
  if (whole.error() != 0) return whole.error();
  const int error = whole.end();
  return error != 0 ? error : spawn_detached(command, output.get());
}

}  // namespace opscope
