//! `run` and `load`: from arguments to a plan, to a run, to its documents.
//!
//! Where results will go is prepared before the run, so that minutes of measuring are not lost to a typo in a path.
//!
//! Invariant: a run that failed leaves no report behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::args::{Endpoints, LoadArgs, Output, Pinning, RunArgs};
use super::{Failure, ad_hoc, complain, endpoint, say, scenario_text, write_documents, wrote};
use crate::check;
use crate::plan::{Pins, Plan, TargetKind};
use crate::record::Run;
use crate::report::{json, progress, table};
use crate::run::{self, Options};
use crate::scenario::{self, Changes, values};

/// `run`: a scenario.
pub(super) fn run(args: &RunArgs, command: &str) -> Result<(), Failure> {
    let text = scenario_text(&args.scenario)?;
    let changes = Changes {
        short: args.short,
        rounds: args.rounds,
        duration_s: args.duration_s,
        only: args.only.clone(),
        visit: args.visit.clone(),
        tool: args.tool,
        targets: endpoint::targets(&args.endpoints.target).map_err(Failure::Usage)?,
        pins: pins(&args.pinning)?,
    };
    let plan = scenario::load(&args.scenario, &text, &changes).map_err(Failure::usage)?;
    if !args.spawn && changes.targets.is_empty() {
        return Err(Failure::usage(
            "nothing to measure: give --spawn to start the scenario's servers and proxies here, \
             or name running ones with --target NAME=URL",
        ));
    }
    let options = Options {
        spawn: args.spawn,
        programs: programs(args),
        command: command.to_owned(),
        tls: tls(&args.endpoints, &plan)?,
    };
    let folder = args.output.out.clone().unwrap_or_else(|| default_folder(&plan.name));
    let run = measure(&plan, &options, &args.output, Some(&folder))?;
    if args.check { judge(&plan, &run) } else { Ok(()) }
}

/// `load`: one test.
pub(super) fn load(args: &LoadArgs, command: &str) -> Result<(), Failure> {
    let pins = pins(&args.pinning)?.unwrap_or_default();
    let plan = ad_hoc::plan(args, pins).map_err(Failure::Usage)?;
    let tls = tls(&args.endpoints, &plan)?;
    let options = Options { command: command.to_owned(), tls, ..Options::default() };
    measure(&plan, &options, &args.output, args.output.out.as_deref()).map(drop)
}

/// Runs the plan and shows the result in every form that was asked for.
fn measure(
    plan: &Plan,
    options: &Options,
    output: &Output,
    folder: Option<&Path>,
) -> Result<Run, Failure> {
    prepare(folder)?;
    for path in [&output.json, &output.markdown, &output.html].into_iter().flatten() {
        prepare(path.parent())?;
    }
    let interrupted = interrupted()?;
    let outcome = {
        // Dropped before anything is printed: a bar that still draws would garble it.
        let mut watch = progress::on_stderr();
        run::run(plan, options, watch.as_mut(), &interrupted)
    };
    let run = outcome.map_err(|error| {
        // The folder was made for this run alone; when something else is in it, it stays.
        let _ = folder.map(fs::remove_dir);
        match interrupted.load(Ordering::Relaxed) {
            true => Failure::failed(
                "interrupted; what was started is stopped, and no report is written",
            ),
            false => Failure::failed(format!("{error:#}")),
        }
    })?;
    say(&table::run(&run, table::Look::of_stdout()));
    write_all(&run, output, folder)?;
    Ok(run)
}

/// Writes the run file and the documents.
fn write_all(run: &Run, output: &Output, folder: Option<&Path>) -> Result<(), Failure> {
    let in_folder = |name| folder.map(|folder| folder.join(name));
    for path in [in_folder("run.json"), output.json.clone()].into_iter().flatten() {
        json::write(run, &path).map_err(Failure::usage)?;
        wrote(&path);
    }
    write_documents(run, in_folder("report.html").as_deref(), in_folder("report.md").as_deref())?;
    write_documents(run, output.html.as_deref(), output.markdown.as_deref())
}

/// Says of each limit whether it holds.
fn judge(plan: &Plan, run: &Run) -> Result<(), Failure> {
    if plan.limits.is_empty() {
        complain(
            "this scenario has no limits for the tests that were run; --check had nothing to judge",
        );
        return Ok(());
    }
    let verdicts = check::judge(&plan.limits, run);
    for verdict in &verdicts {
        say(&verdict.to_string());
    }
    if check::held(&verdicts) {
        return Ok(());
    }
    let missed = verdicts.iter().filter(|verdict| verdict.failed()).count();
    Err(Failure::failed(match missed {
        0 => "no limit could be judged: the targets that they compare were left out".to_owned(),
        missed => format!("{missed} of {} limits missed", verdicts.len()),
    }))
}

/// A flag that Ctrl-C sets; the run looks at it and ends in order.
fn interrupted() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&flag))
            .map_err(|error| Failure::failed(format!("cannot listen for Ctrl-C: {error}")))?;
    }
    Ok(flag)
}

/// What `--pin` and `--no-pin` say; `None`: the scenario's.
fn pins(args: &Pinning) -> Result<Option<Pins>, Failure> {
    if args.no_pin {
        return Ok(Some(Pins::default()));
    }
    if args.pin.is_empty() {
        return Ok(None);
    }
    let mut pins = Pins::default();
    for text in &args.pin {
        let (role, cpus) = text.split_once('=').unwrap_or((text, ""));
        let place = match role {
            "proxy" => &mut pins.proxy,
            "server" => &mut pins.server,
            "load" => &mut pins.load,
            _ => {
                let role = scenario::shown(role);
                return Err(Failure::usage(format!(
                    "--pin: found role `{role}`; allowed: proxy=CPUS, server=CPUS, load=CPUS"
                )));
            }
        };
        *place =
            values::cpus(cpus).map_err(|why| Failure::usage(format!("--pin {role}: {why}")))?;
    }
    Ok(Some(pins))
}

/// Programs that were named.
fn programs(args: &RunArgs) -> Vec<(String, PathBuf)> {
    let given = [
        ("respool", &args.respool),
        ("predixy", &args.predixy),
        ("nutcracker", &args.nutcracker),
        ("haproxy", &args.haproxy),
    ];
    given.into_iter().filter_map(|(name, path)| Some((name.to_owned(), path.clone()?))).collect()
}

/// How servers that speak TLS are trusted: by the named authorities and nobody else.
fn tls(args: &Endpoints, plan: &Plan) -> Result<Option<Arc<ClientConfig>>, Failure> {
    let speaks = |kind: &TargetKind| matches!(kind, TargetKind::External(it) if it.tls);
    let Some(path) = &args.tls_ca else {
        return match plan.targets.iter().find(|target| speaks(&target.kind)) {
            Some(target) => Err(Failure::usage(format!(
                "target `{}` speaks TLS; name the certificates to trust with --tls-ca FILE",
                target.name
            ))),
            None => Ok(None),
        };
    };
    let wrong = |why: &dyn std::fmt::Display| {
        Failure::usage(format!("cannot take certificates from {}: {why}", path.display()))
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))? {
        let certificate = certificate.map_err(|error| wrong(&error))?;
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    if roots.is_empty() {
        return Err(wrong(&"there is none in it (PEM is expected)"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Some(Arc::new(config)))
}

/// Makes a folder before the run that will write into it.
fn prepare(folder: Option<&Path>) -> Result<(), Failure> {
    let Some(folder) = folder.filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(());
    };
    fs::create_dir_all(folder).map_err(|error| {
        Failure::usage(format!("cannot make the folder {}: {error}", folder.display()))
    })
}

/// A folder of its own for each run: an earlier one is what a later one is compared with.
fn default_folder(scenario: &str) -> PathBuf {
    let time = jiff::Zoned::now().strftime("%Y-%m-%d-%H%M%S");
    Path::new("bench-results").join(format!("{scenario}-{time}"))
}
