# make test    the whole test suite
# make demo    a real sweep on an embedded data set, and its table
# make bench   every benchmark that can run here; make bench ARGUMENTS="training --vectors FILE --peer CHECKOUT"
# make papers  the tables and figures of the papers, with ten seeds (the ensemble eight, the figures of RE2 three), one sweep after another,
#              each in a folder of runs/; resumable; make papers ARGUMENTS="--data-directory DATA --vectors FILE --dry-run"
# make accelerators  compiles the programs for a TPU v5e and an H100, which need not be present, and reports memory and traffic; hours,
#              resumable; make accelerators ARGUMENTS="--target h100 --model re2"
# make device  on a machine with a GPU or TPU: the measurements that need one, at most nine minutes (docs/how_to/devices.md,
#              Measurements); elsewhere with --quick; installs JAX for CUDA 12 where there is nvidia-smi, make device ACCELERATOR=cuda13
#              or ACCELERATOR=tpu for another device
# make mutants puts single faults into the code, one at a time, and says which the tests catch; about 15 minutes on two cores
# make torture every kind of attack, about seven minutes: kills, limits, damage, broken files; make torture ARGUMENTS="--only inputs"
# make clusters  clusters of Ray and of Slurm on this machine: workers, nodes and commands that die, jobs that are cancelled or reach their
#              time limit; about six minutes on two cores; the logs are results/clusters/ray.txt and slurm.txt; Slurm: root, and
#              apt-get install slurm-wlm
# make lowest  the whole test suite with the lowest versions requirements.txt allows
# make installed  builds the package, installs it in a new environment, gives the README's commands in an empty folder, and runs tests
#              of the sdist; about 5 minutes
# make docs    the documentation as a site, in build/docs
# make lint    ruff on the code and its format, and pyright on the modules that scripts import
# Each creates its own virtual environment if it is missing; with another Python: make PYTHON=/path/to/python3.12 test

SHELL := /bin/sh
PYTHON ?= python3
# Installed without its requirements, which include an old orbax-checkpoint.
JAX2ONNX := 'jax2onnx>=0.17.1,<0.18'
PIP := -m pip --disable-pip-version-check --quiet --quiet
INSTALLED := .venv/.jaxmatch-installed
# What JAX calls its compilers.
EXTRA_tpu := tpu
EXTRA_cuda := cuda12

# The extra of JAX that `make device` installs: that for NVIDIA GPUs where there is one; make test needs none.
ACCELERATOR ?= $(if $(shell command -v nvidia-smi 2>/dev/null),cuda12)

# Launcher and data set. ESAN and CSRAN are given their papers' features of a word; in the comparison all see the same.
PAPERS := $(foreach data,wikiqa scitail quora snli,re2_main/$(data) re2_ablation/$(data) re2_robustness/$(data)) \
	re2_ensemble/snli re2_occlusion/snli re2_attention/snli \
	$(foreach data,quora snli multinli,esan_main/$(data)) esan_ablation/quora \
	$(foreach data,scitail trecqa twitter_url ubuntu quora snli,csran_main/$(data)) \
	$(foreach data,scitail trecqa snli,csran_ablation/$(data)) $(foreach data,scitail quora snli,csran_depth/$(data)) \
	$(foreach data,wikiqa snli multinli,comparison/$(data)) re2_timing/snli esan_timing/quora

# The code of RE2's authors that made the paper's numbers.
OF_RE2 := --setting released_tensorflow

# The words of a command line that a timing takes. It has no vectors and nothing to train.
of_timing = $(filter --data-directory=% --dry-run --smoke --config.%,$(subst --data-directory ,--data-directory=,$(strip $(1))))

.PHONY: demo test bench papers accelerators device mutants clusters lowest torture installed docs lint
.DELETE_ON_ERROR:

test: $(INSTALLED)
	.venv/bin/python -m pytest -n auto --maxprocesses 8 --dist worksteal

bench: $(INSTALLED)
	.venv/bin/python -m benchmarks $(ARGUMENTS)

demo: $(INSTALLED)
	.venv/bin/jaxmatch sweep sweeps/quickstart.py --workdir runs/quickstart

torture: $(INSTALLED)
	.venv/bin/python tests/torture $(or $(ARGUMENTS),--output results/torture)

# A sweep whose data is missing says so (status 2) and the next one begins; anything else ends it. Those without a number of seeds
# here have the paper's.
papers: $(INSTALLED)
	@failed=; for each in $(PAPERS); do \
		case $$each in \
			*_timing/*) set -- timing $(call of_timing,$(ARGUMENTS));; \
			re2_ensemble/*|re2_occlusion/*|re2_attention/*) set -- sweep $(OF_RE2) $(ARGUMENTS);; \
			re2_*) set -- sweep --seeds 10 $(OF_RE2) --baselines all $(ARGUMENTS);; \
			comparison/*) set -- sweep --seeds 10 --models all $(ARGUMENTS);; \
			*) set -- sweep --seeds 10 --baselines all $(ARGUMENTS);; \
		esac; \
		command=$$1; shift; \
		.venv/bin/jaxmatch $$command "sweeps/$${each%/*}.py" --dataset "$${each#*/}" --workdir "runs/$$each" "$$@"; \
		case $$? in 0) ;; 2) failed="$$failed $$each";; *) exit 1;; esac; \
	done; [ -z "$$failed" ] || { echo "not trained:$$failed" >&2; exit 1; }

accelerators: $(INSTALLED) .cache/accelerators/tpu/.jaxmatch-installed .cache/accelerators/cuda/.jaxmatch-installed
	.venv/bin/python -m benchmarks.accelerators $(ARGUMENTS)

device: $(INSTALLED) $(if $(ACCELERATOR),.venv/.jaxmatch-with-$(ACCELERATOR))
	.venv/bin/python -m benchmarks.device $(ARGUMENTS)

mutants: $(INSTALLED)
	.venv/bin/python -m tests.mutants $(ARGUMENTS)

clusters: $(INSTALLED)
	@mkdir -p results/clusters
	@ended=0; for each in ray slurm; do \
		.venv/bin/python -m pytest -v -rs --no-header -m "" tests/test_on_$$each.py tests/test_$${each}_*.py \
			> results/clusters/$$each.txt 2>&1 || ended=1; \
		cat results/clusters/$$each.txt; \
	done; exit $$ended

lowest: .cache/lowest/.jaxmatch-installed
	.cache/lowest/bin/python -m pytest -n auto --maxprocesses 8 --dist worksteal

installed:
	@sh tests/installed.sh .cache/installed "$(PYTHON)"

lint: .cache/lint/.jaxmatch-installed $(INSTALLED)
	.cache/lint/bin/ruff check
	.cache/lint/bin/ruff format --check
	.cache/lint/bin/pyright --pythonpath .venv/bin/python

docs: .cache/docs/.jaxmatch-installed
	.cache/docs/bin/python docs/generate.py
	.cache/docs/bin/python -m sphinx -W --keep-going -q docs build/docs
	@echo "the site begins at build/docs/index.html"

# The stamp is younger than what it was made from: nothing is installed twice.
$(INSTALLED): requirements.txt pyproject.toml
	@.ci/environment "$(PYTHON)" .venv
	@echo "installing the requirements into .venv (once)"
	@.venv/bin/python $(PIP) install -r requirements.txt -e .
	@.venv/bin/python $(PIP) install --no-deps $(JAX2ONNX)
	@touch $@

.venv/.jaxmatch-with-%: $(INSTALLED)
	@echo "installing JAX for $* into .venv (once; gigabytes)"
	@.venv/bin/python $(PIP) install "jax[$*]"
	@touch $@

.cache/lowest/.jaxmatch-installed: requirements.txt pyproject.toml
	@.ci/environment "$(PYTHON)" .cache/lowest
	@echo "installing the lowest allowed versions into .cache/lowest (once)"
	@sed -n 's/^\([A-Za-z0-9_-]*\)>=\([^,]*\),.*/\1==\2/p' requirements.txt > .cache/lowest/requirements.txt
	@.cache/lowest/bin/python $(PIP) install -r .cache/lowest/requirements.txt -e .
	@.cache/lowest/bin/python $(PIP) install --no-deps $(JAX2ONNX)
	@touch $@

.cache/docs/.jaxmatch-installed: pyproject.toml
	@.ci/environment "$(PYTHON)" .cache/docs
	@echo "installing what builds the documentation into .cache/docs (once)"
	@.cache/docs/bin/python $(PIP) install -e '.[docs]'
	@touch $@

.cache/lint/.jaxmatch-installed: pyproject.toml
	@.ci/environment "$(PYTHON)" .cache/lint
	@echo "installing ruff and pyright into .cache/lint (once)"
	@.cache/lint/bin/python $(PIP) install 'ruff>=0.14,<0.18' 'pyright[nodejs]>=1.1.400,<2'
	@touch $@

# JAX with the compiler for a device, and what the models need; the package itself is not installed there.
.cache/accelerators/%/.jaxmatch-installed: requirements.txt
	@.ci/environment "$(PYTHON)" $(@D)
	@echo "installing JAX for $* into $(@D) (once; gigabytes)"
	@sed '/^# Its tests/,$$d' requirements.txt > $(@D)/requirements.txt
	@$(@D)/bin/python $(PIP) install -r $(@D)/requirements.txt "jax[$(EXTRA_$*)]"
	@touch $@
