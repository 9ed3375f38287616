# A program that is profiled by Grafana's client: python3 work.py URL KEY
import sys
import time

import pyroscope

url, key = sys.argv[1:]
pyroscope.configure(
    application_name="python.app",
    server_address=url,
    basic_auth_username="anybody",
    basic_auth_password=key,
    tags={"region": "<b>north</b>"},
)


def hot():
    total = 0
    for number in range(50_000):
        total += number * number
    return total


def work(seconds):
    end = time.time() + seconds
    while time.time() < end:
        hot()


work(2)
with pyroscope.tag_wrapper({"phase": "second"}):
    work(2)
# What was sampled and not pushed yet is pushed now.
pyroscope.shutdown()
