"""Log lines parsed in pure Python: regular expressions, dictionaries, counts; nothing that a library computes."""

import collections
import json
import random
import re
import sys

LINE = re.compile(r"(?P<host>\S+) \[(?P<time>[^\]]+)\] \"(?P<verb>\w+) (?P<path>\S+)\" (?P<code>\d+) (?P<size>\d+)")
VERBS, PATHS = ("GET", "POST", "PUT"), [f"/shop/{i}/item?page={i % 7}&sort=asc" for i in range(50)]


def lines(seed, count=400):
    r = random.Random(seed)
    for _ in range(count):
        verb, path = r.choice(VERBS), r.choice(PATHS)
        clock = f"{r.randint(0, 23):02d}:{r.randint(0, 59):02d}"
        host, code = f"10.0.{r.randint(0, 9)}.{r.randint(0, 99)}", r.choice((200, 404))
        yield f'{host} [{clock}] "{verb} {path}" {code} {r.randint(1, 9999)}'


def parse(line):
    found = LINE.match(line).groupdict()
    path, _, query = found["path"].partition("?")
    found["path"], found["query"] = path, dict(part.split("=") for part in query.split("&"))
    found["size"], found["code"] = int(found["size"]), int(found["code"])
    return found


def main():
    sizes, hours = collections.Counter(), collections.Counter()
    for turn in range(int(sys.argv[1])):
        for line in lines(turn):
            row = parse(line)
            if row["code"] == 200:
                sizes[row["path"]] += row["size"]
            hours[row["time"].split(":")[0]] += 1
    print(json.dumps([sizes.most_common(5), sorted(hours.items())]))


if __name__ == "__main__":
    main()
