-- The ledger, schema 5. Statements are separated by empty lines. Amounts are exact fractions, as 5 or 1/3.
CREATE TABLE account (
    name TEXT PRIMARY KEY,
    definition TEXT NOT NULL CHECK (definition IN ('zcdp', 'puredp')),
    total TEXT NOT NULL,  -- rho or epsilon, for each state
    opened TEXT NOT NULL,
    unit TEXT NOT NULL DEFAULT 'person' CHECK (unit IN ('person', 'household')),  -- of privacy
    publisher TEXT,  -- public key whose signature every charge needs
    CHECK (total GLOB '[1-9]*' AND total NOT GLOB '*[^0-9/]*' AND total NOT GLOB '*/[0/]*' AND total NOT GLOB '*/*/*'
        AND total NOT GLOB '*/')
) STRICT

CREATE TABLE run (
    id TEXT PRIMARY KEY,
    account TEXT NOT NULL REFERENCES account (name),
    amount TEXT NOT NULL,  -- in the account's currency
    input_digest TEXT NOT NULL,
    configuration_digest TEXT NOT NULL,
    noise_scheme INTEGER NOT NULL,
    secret_digest TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('reserved', 'sealed', 'released', 'abandoned')),
    release_digest TEXT,
    reserved TEXT NOT NULL,
    journal TEXT NOT NULL,  -- digest of the act that reserved it
    CHECK (amount GLOB '[1-9]*' AND amount NOT GLOB '*[^0-9/]*' AND amount NOT GLOB '*/[0/]*'
        AND amount NOT GLOB '*/*/*' AND amount NOT GLOB '*/'),
    CHECK (status = 'abandoned' OR (status = 'reserved') = (release_digest IS NULL))
) STRICT

CREATE TABLE charge (  -- a run's amount, charged to each of its states
    run TEXT NOT NULL REFERENCES run (id),
    us_state TEXT NOT NULL,
    PRIMARY KEY (run, us_state)
) STRICT

CREATE TABLE data (  -- what each run took its data for; runs on synthetic data have no row in `run`
    run TEXT PRIMARY KEY,
    synthetic INTEGER NOT NULL CHECK (synthetic IN (0, 1)),
    entered TEXT NOT NULL
) STRICT

CREATE TABLE data_digest (  -- of all that a run read, and of each of its files of records
    run TEXT NOT NULL REFERENCES data (run),
    digest TEXT NOT NULL,
    PRIMARY KEY (run, digest)
) STRICT

CREATE TABLE journal (  -- every act; the same lines are in a file beside the ledger (privacy/accounting/journal.py)
    number INTEGER PRIMARY KEY,
    line TEXT NOT NULL
) STRICT

-- Nothing is deleted. INSERT OR REPLACE and UPDATE OR REPLACE delete a row without firing DELETE triggers, so a row is
-- inserted once, under a rowid of its own, and keeps that rowid.
CREATE TRIGGER account_stays BEFORE DELETE ON account BEGIN SELECT RAISE (ABORT, 'nothing is deleted'); END

CREATE TRIGGER run_stays BEFORE DELETE ON run BEGIN SELECT RAISE (ABORT, 'nothing is deleted'); END

CREATE TRIGGER charge_stays BEFORE DELETE ON charge BEGIN SELECT RAISE (ABORT, 'nothing is deleted'); END

CREATE TRIGGER data_stays BEFORE DELETE ON data BEGIN SELECT RAISE (ABORT, 'nothing is deleted'); END

CREATE TRIGGER data_digest_stays BEFORE DELETE ON data_digest BEGIN SELECT RAISE (ABORT, 'nothing is deleted'); END

CREATE TRIGGER journal_stays BEFORE DELETE ON journal BEGIN SELECT RAISE (ABORT, 'nothing is deleted'); END

CREATE TRIGGER account_once BEFORE INSERT ON account
WHEN EXISTS (SELECT 1 FROM account WHERE rowid = NEW.rowid OR name = NEW.name)
BEGIN SELECT RAISE (ABORT, 'an account is opened once'); END

CREATE TRIGGER run_once BEFORE INSERT ON run
WHEN EXISTS (SELECT 1 FROM run WHERE rowid = NEW.rowid OR id = NEW.id)
BEGIN SELECT RAISE (ABORT, 'a run has one row'); END

CREATE TRIGGER charge_once BEFORE INSERT ON charge
WHEN EXISTS (SELECT 1 FROM charge WHERE rowid = NEW.rowid OR run = NEW.run AND us_state = NEW.us_state)
BEGIN SELECT RAISE (ABORT, 'a run charges a state once'); END

CREATE TRIGGER data_once BEFORE INSERT ON data
WHEN EXISTS (SELECT 1 FROM data WHERE rowid = NEW.rowid OR run = NEW.run)
BEGIN SELECT RAISE (ABORT, 'the data of a run is entered once'); END

CREATE TRIGGER data_digest_once BEFORE INSERT ON data_digest
WHEN EXISTS (SELECT 1 FROM data_digest WHERE rowid = NEW.rowid OR run = NEW.run AND digest = NEW.digest)
BEGIN SELECT RAISE (ABORT, 'a digest is entered once'); END

CREATE TRIGGER journal_follows BEFORE INSERT ON journal
WHEN NEW.number != (SELECT COALESCE(MAX(number), 0) + 1 FROM journal)
BEGIN SELECT RAISE (ABORT, 'an act follows the last'); END

-- Nothing is refunded or changed. A run keeps its secret and gets one release.
CREATE TRIGGER account_is_fixed BEFORE UPDATE ON account BEGIN SELECT RAISE (ABORT, 'a total is never changed'); END

CREATE TRIGGER journal_is_fixed BEFORE UPDATE ON journal BEGIN SELECT RAISE (ABORT, 'an act is never changed'); END

CREATE TRIGGER charge_is_fixed BEFORE UPDATE ON charge BEGIN SELECT RAISE (ABORT, 'nothing is refunded'); END

CREATE TRIGGER data_is_fixed BEFORE UPDATE ON data BEGIN SELECT RAISE (ABORT, 'data is never changed'); END

CREATE TRIGGER data_digest_is_fixed BEFORE UPDATE ON data_digest
BEGIN SELECT RAISE (ABORT, 'data is never changed'); END

CREATE TRIGGER run_is_fixed BEFORE UPDATE
OF id, account, amount, input_digest, configuration_digest, noise_scheme, secret_digest, reserved, journal ON run
BEGIN SELECT RAISE (ABORT, 'nothing is refunded'); END

CREATE TRIGGER run_goes_one_way BEFORE UPDATE ON run
WHEN NEW.rowid != OLD.rowid
    OR NEW.status != OLD.status AND OLD.status || ' ' || NEW.status NOT IN (
        'reserved sealed', 'reserved abandoned', 'sealed released', 'sealed abandoned')
    OR NEW.release_digest IS NOT OLD.release_digest AND OLD.status || ' ' || NEW.status != 'reserved sealed'
BEGIN SELECT RAISE (ABORT, 'a run goes one way and has one release'); END
