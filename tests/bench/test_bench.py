# SPDX-License-Identifier: MIT
"""The benchmark program works: every scenario and every system reports, the JSON can be read, and the command
line refuses what makes no sense. Nothing here looks at how fast anything was."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

BENCH = sys.argv[1]
GRIDS = ['two_lanes', 'unbalanced', 'random', 'ping_pong', 'four_lanes', 'short_runs', 'oversubscribed', 'metg']


def run(*arguments):
    return subprocess.run([BENCH, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)


def listed():
    """The scenarios and the systems that the program names."""
    result = run('--list')
    assert result.returncode == 0, result
    names = {}
    for line in result.stdout.splitlines():
        if line.startswith('  '):
            names[section].append(line.split()[0])
        elif line in ('scenarios', 'systems'):
            section = line
            names[section] = []
    return names['scenarios'], names['systems']


def times_as_fast(a, b):
    return a['median'] / b['median'] if a['unit'] == 'efficiency' else b['median'] / a['median']


def check_ratios(own, of_case):
    """Those of libovl's result, worked out anew from the results of all systems in its case."""
    def usable(r):
        return r['median'] > 0 and r.get('limit') != 'more than'

    def check(name, other):
        exact = other is not None and usable(own) and 'limit' not in own and 'limit' not in other
        assert (name in own) == exact, (name, own, of_case)
        if exact:
            assert abs(own[name] / times_as_fast(own, other) - 1) < 1e-3, (name, own, of_case)

    floor = of_case.get('floor')
    check('to_floor', floor if floor is not None and usable(floor) else None)
    peers = [r for system, r in of_case.items() if system not in ('floor', 'libovl') and usable(r)]
    check('to_best_peer', min(peers, key=lambda r: times_as_fast(own, r)) if peers and usable(own) else None)
    if 'best_peer' in own:
        assert abs(own['to_best_peer'] / times_as_fast(own, of_case[own['best_peer']]) - 1) < 1e-3, (own, of_case)


def check_results(scenarios, systems):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / 'results.json'
        result = run('--smoke', '--json', str(file))
        assert result.returncode == 0, result.stdout + result.stderr
        written = json.loads(file.read_text())
    assert written['effort'] == 'smoke' and set(written['systems']) == set(systems), written
    assert written['command'] == ['tests/bench/run', '--smoke', '--json', str(file)], written
    assert written['compiler'], written
    assert set(written['line_ns']) == set(scenarios) and min(written['line_ns'].values()) >= 0, written
    for scenario in scenarios:
        results = [r for r in written['results'] if r['scenario'] == scenario]
        assert results, f'{scenario} reports nothing'
        assert f'\n{scenario}: ' in result.stdout, f'{scenario} prints no table'
        reporting = {r['system'] for r in results}
        missing = set(systems) - reporting if scenario in GRIDS else {'libovl'} - reporting
        assert not missing, f'{scenario}: nothing of {missing}'
        for r in results:
            assert r['values'] > 0 and 0 <= r['min'] <= r['median'] <= r['max'], r
        for own in (r for r in results if r['system'] == 'libovl'):
            of_case = {r['system']: r for r in results if r['case'] == own['case']}
            check_ratios(own, of_case if scenario in GRIDS else {'libovl': own})


def check_alone():
    """Without others there are no ratios."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / 'results.json'
        assert run('--smoke', '-s', 'two_lanes', '-s', 'metg', '-y', 'libovl', '-j', str(file)).returncode == 0
        for own in json.loads(file.read_text())['results']:
            check_ratios(own, {'libovl': own})


def check_choice():
    result = run('--smoke', '--scenario', 'two_lanes', '--system', 'libovl', '--system', 'pool', '-r', '2')
    assert result.returncode == 0, result
    assert 'two_lanes: ' in result.stdout and 'random: ' not in result.stdout, result.stdout
    assert 'oneTBB' not in result.stdout, result.stdout


def check_refusals():
    for arguments in (['--scenario', 'nonsense'], ['--scenario', ''], ['--system', 'nonsense'],
                      ['--repetitions', '0'], ['--repetitions', '100'], ['--repetitions', '3x'],
                      ['--repetitions', '-1'], ['--json', ''], ['--json'], ['--nonsense'], ['surplus']):
        result = run(*arguments)
        assert result.returncode == 2 and result.stderr and not result.stdout, (arguments, result)
    result = run('--smoke', '--json', '/nonexistent/results.json')
    assert result.returncode == 1 and result.stderr, result
    assert run('--help').returncode == 0


def main():
    scenarios, systems = listed()
    assert {'floor', 'libovl', 'pool', 'uv'} <= set(systems), systems
    check_refusals()
    check_choice()
    check_alone()
    check_results(scenarios, systems)


main()
