print(sum(len({str(i): [i] * (i % 9) for i in range(n)}) for n in range(200)))
