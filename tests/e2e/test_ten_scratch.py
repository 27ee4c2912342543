import time
import httpx
from tests.e2e.test_prefect import *  # noqa
from tests.e2e.test_prefect import office, wait_for, pytestmark  # noqa


def test_ten(office, scheduled):
    pr = office.deployments()["pr"]
    for number in range(10):
        run = office.post(f"deployments/{pr}/create_flow_run", {})
        def ended():
            got = httpx.get(f"{office.api}/flow_runs/{run['id']}").json()
            return got if got["state_type"] in ("COMPLETED", "FAILED", "CRASHED") else None
        until = time.time() + 300
        while not (got := ended()):
            assert time.time() < until
            time.sleep(0.3)
        assert got["state_type"] == "COMPLETED", got["state"]
        levels = "(PR-STATE, 1)", "(PR-TRACT, 2)"
        expected = {f"{stage} {level}" for stage in ("totals", "sex by age", "suppression") for level in levels}
        expected |= {"validate", "population groups", "budget check", "coterminous", "spine", "release", "commit"}
        time.sleep(8)
        found = office.post("task_runs/filter", {"task_runs": {"flow_run_id": {"any_": [run["id"]]}}, "limit": 200})
        bad = [(t["name"], t["state_type"]) for t in found if t["state_type"] != "COMPLETED"]
        names = {t["name"] for t in found}
        odd = [n for n in names if "-" in n.replace("PR-", "")]
        with open("/tmp/h/ops/ten.log", "a") as log:
            print(number, len(found), sorted(expected - names), bad, odd, file=log)
        assert expected <= names and not bad
