"""The first workflow of a new installation: a repository with data, the fence, a start, a commit.

Waits for lakeFS and Conductor, so that it can be started beside them. Needs the settings of a
worker in its environment, and a worker for `clean_events`. Each run of it is a workflow.
"""

import base64
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

REPOSITORY, BRANCH = "quickstart", "main"
EVENTS = b"day,amount\nmonday,3\ntuesday,x\nfriday,4\n"
SECONDS_MAX = 300
WORKFLOW: dict[str, object] = {
    "name": "quickstart",
    "version": 1,
    "schemaVersion": 2,
    "ownerEmail": "data@example.com",
    "tasks": [
        {
            "name": "quickstart.clean",
            "taskReferenceName": "clean",
            "type": "SIMPLE",
            "inputParameters": {"workspace": "${workflow.input.workspace}", "params": {}},
        }
    ],
    "outputParameters": {"workspace": "${clean.output.workspace}"},
}


def ask(method: str, url: str, body: bytes | None = None, kind: str = "application/json") -> bytes:
    """Send one request; the key is for lakeFS, and Conductor ignores it."""
    key = os.environ["LAKECTL_CREDENTIALS_ACCESS_KEY_ID"]
    secret = os.environ["LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY"]
    token = base64.b64encode(f"{key}:{secret}".encode()).decode()
    headers = {"Authorization": f"Basic {token}", "Content-Type": kind}
    request = urllib.request.Request(url, body, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        found: bytes = answer.read()
    return found


def wait_for(url: str) -> None:
    """Return when a GET is answered."""
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            ask("GET", url)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(1)
        else:
            return


def main() -> int:
    """Run it; 0 if the workflow has completed."""
    lakefs = f"{os.environ['PERAGO_LAKEFS']}/api/v1"
    conductor = os.environ["PERAGO_CONDUCTOR"]
    wait_for(f"{lakefs}/user")
    wait_for(f"{conductor}/metadata/taskdefs")
    repository = f"{lakefs}/repositories/{REPOSITORY}"
    try:
        space = {"name": REPOSITORY, "storage_namespace": f"local://{REPOSITORY}"}
        ask("POST", f"{lakefs}/repositories", json.dumps(space).encode())
        path = f"{repository}/branches/{BRANCH}/objects?path=sales/raw/events.csv"
        ask("POST", path, EVENTS, "application/octet-stream")
        ask("POST", f"{repository}/branches/{BRANCH}/commits", b'{"message": "the first events"}')
    except urllib.error.HTTPError as error:
        if error.code != 409:  # a run before this one has made it
            raise
    subprocess.run(["perago", "fence", "install", REPOSITORY, BRANCH], check=True)
    subprocess.run(["perago", "register", "clean_events"], check=True)
    ask("PUT", f"{conductor}/metadata/workflow", json.dumps([WORKFLOW]).encode())
    head = json.loads(ask("GET", f"{repository}/branches/{BRANCH}"))["commit_id"]
    place = {"repository": REPOSITORY, "branch": BRANCH, "refType": "commit", "ref": head}
    started = ask(
        "POST", f"{conductor}/workflow/quickstart", json.dumps({"workspace": place}).encode()
    )
    workflow = f"{conductor}/workflow/{started.decode()}?includeTasks=false"
    deadline = time.monotonic() + SECONDS_MAX
    while (state := json.loads(ask("GET", workflow)))["status"] == "RUNNING":
        if time.monotonic() > deadline:
            break
        time.sleep(1)
    print(f"workflow {started.decode()}: {state['status']}")
    for commit in json.loads(ask("GET", f"{repository}/refs/{BRANCH}/commits?amount=2"))["results"]:
        print(commit["id"], commit["message"])
    return 0 if state["status"] == "COMPLETED" else 1


if __name__ == "__main__":
    sys.exit(main())
