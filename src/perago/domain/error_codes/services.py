"""Codes of what the world did: lakeFS, Conductor, and everything without a code of its own."""

from perago.domain.error_codes.row import ErrorCode

SERVICE_CODES = (
    ErrorCode(
        "PRG-L001",
        "A service could not do what it was asked.",
        "Read the message: it names the operation and the object.",
        "The finer codes of this family say more.",
    ),
    ErrorCode(
        "PRG-L002",
        "A repository, branch, commit, tag or object does not exist.",
        "Check the name in the message, and what the credentials may see.",
        "A workflow input may name a repository of another environment.",
    ),
    ErrorCode(
        "PRG-L003",
        "A service refused a request for good.",
        "Read its text in the reason.",
        "Nothing was changed.",
    ),
    ErrorCode(
        "PRG-L004",
        "A name is taken.",
        "Nothing, usually: whoever was first has won.",
        "Tags and branches are created only where there is none.",
    ),
    ErrorCode(
        "PRG-L005",
        "Branch protection refused a write or a relocation.",
        "Let the branch be written by merges, or use policy settled or lineage.",
        "Merges of Perago pass on a protected branch, hard resets do not.",
    ),
    ErrorCode(
        "PRG-L006",
        "There was nothing to commit.",
        "Nothing, usually: an unchanged workspace publishes nothing.",
        "A staging branch has no changes against its source.",
    ),
    ErrorCode(
        "PRG-L007",
        "The credentials were refused, or do not allow this.",
        "Check the key and secret, and the policies of the user.",
        "perago config show --origin says where they come from.",
    ),
    ErrorCode(
        "PRG-L008",
        "A service gave no usable answer, and nothing can have changed.",
        "Check address, network, and the state of the service; then retry.",
        "A read failed, or the request was never sent.",
    ),
    ErrorCode(
        "PRG-L009",
        "A request left and no answer came.",
        "Nothing: publications are settled by looking.",
        "Nobody may treat it as not having happened.",
    ),
    ErrorCode(
        "PRG-L010",
        "Bytes that arrived are not the bytes that were promised.",
        "Retry; if it happens again, check the store and everything between.",
        "Length and checksum are verified before a file becomes visible.",
    ),
    ErrorCode(
        "PRG-L011",
        "The repository is read-only.",
        "Publish elsewhere, or declare WorkspaceSpec(read_only=True).",
        "Refused before the body runs.",
    ),
    ErrorCode(
        "PRG-X001",
        "An error without a finer code.",
        "Please report it, with the lines above and what was run.",
        "Every error should have a code of its own; this one was not foreseen.",
    ),
    ErrorCode(
        "PRG-X002",
        "There is no such error code.",
        "Run perago explain without an argument for the list.",
        "Codes look like PRG-U001.",
    ),
    ErrorCode(
        "PRG-X003",
        "The arguments of a command do not fit together, or name nothing.",
        "Read the message, and the command's --help.",
        "Nothing was done. The exit code is 2, as of every wrong usage.",
    ),
    ErrorCode(
        "PRG-X004",
        "A file or directory of this machine could not be read or written.",
        "Check the path in the message, its permissions and the space left.",
        "Said of paths that were given to a command; attempts have codes of their own.",
    ),
)
