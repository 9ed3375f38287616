import json
def leaf(n):
    return sum(i * i for i in range(n))
def twig(n):
    return json.dumps({str(i): leaf(50) for i in range(n)})
def branch(n):
    return [twig(20) for _ in range(n)]
for _ in range(20):
    branch(2000)
