package dev.octet.cli;

import dev.octet.converter.report.ReportData;
import dev.octet.converter.verify.Consumer;
import dev.octet.converter.verify.Finding;
import dev.octet.converter.verify.Rule;
import dev.octet.converter.verify.Verification;
import dev.octet.converter.verify.Verifier;
import dev.octet.converter.verify.VerifyOptions;
import dev.octet.converter.verify.VerifyReport;
import dev.octet.formats.error.Nearest;
import dev.octet.formats.peft.PeftAdapter;
import dev.octet.pipeline.Provenance;
import dev.octet.pipeline.TaskListener;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.commons.cli.Option;

/** {@code octet verify MODEL}: what is wrong with a model for those who will read it. */
final class VerifyCommand implements Command {
    private static final int MAX_DEVICES = 1024;
    private static final int SHOWN_PLACES = 3;

    private static final Option FOR = ChoiceOption.of(
            "for",
            "CONSUMERS",
            Consumer.names(),
            "whose demands to check, with commas between: " + String.join(", ", Consumer.names())
                    + " (default: those that load its layout)");
    private static final PathOption AGAINST = PathOption.read(
            "against", "ORIGINAL", "the model this one was made from: also compare with it (values with --deep)");
    private static final PathOption BASE = PathOption.read(
            "base",
            "MODEL",
            "the base of an adapter (default: the folder that its configuration names, if it is here)");
    private static final Option TP = Flags.value(
            "tp",
            "N,N,...",
            "numbers of devices that the model must split onto (default: 1; which powers of two are possible is always"
                    + " reported)");
    private static final Option DEEP =
            Flags.flag("deep", "read the weights and all scales too (default: headers and small scales)");
    private static final PathOption REPORT =
            PathOption.written("report", "FILE.html", "write the result as a page too (default: none)");
    private static final Option RULES = Flags.flag("rules", "list all rules and end");

    /** What {@code --rules --json} prints. */
    record Rules(List<RuleText> rules) {}

    /** One of them. */
    record RuleText(
            String id,
            String severity,
            List<String> consumers,
            String demand,
            String fix,
            String source,
            boolean deep,
            boolean needsOriginal) {
        static RuleText of(Rule rule) {
            return new RuleText(
                    rule.id(),
                    rule.severity().text(),
                    rule.consumers().stream().map(Consumer::text).toList(),
                    rule.demand(),
                    rule.fix(),
                    rule.source(),
                    rule.deep(),
                    rule.needsOriginal());
        }
    }

    /** What {@code --json} prints of a finding. */
    record FindingText(
            String rule,
            String severity,
            List<String> consumers,
            String what,
            long count,
            List<Finding.Place> places,
            String fix,
            String source) {
        static FindingText of(Finding finding) {
            return new FindingText(
                    finding.rule(),
                    finding.severity().text(),
                    finding.consumers().stream().map(Consumer::text).toList(),
                    finding.what(),
                    finding.count(),
                    finding.places(),
                    finding.fix(),
                    finding.source());
        }
    }

    /** What {@code --json} prints. */
    record Answer(
            String model,
            String kind,
            String layout,
            List<String> consumers,
            List<Integer> devices,
            boolean passed,
            int errors,
            int warnings,
            int advice,
            List<FindingText> findings,
            List<String> rulesRun,
            List<Verification.Skipped> rulesSkipped,
            List<String> notes,
            double seconds) {
        static Answer of(Verification v, double seconds) {
            return new Answer(
                    v.model(),
                    v.kind(),
                    v.layout(),
                    v.consumers(),
                    v.devices(),
                    v.passed(),
                    v.errors(),
                    v.warnings(),
                    v.advice(),
                    v.findings().stream().map(FindingText::of).toList(),
                    v.rulesRun(),
                    v.rulesSkipped(),
                    v.notes(),
                    seconds);
        }
    }

    @Override
    public String name() {
        return "verify";
    }

    @Override
    public String summary() {
        return "Check a model or adapter against what its consumers demand; exit 1 when one would refuse or misread"
                + " it.";
    }

    @Override
    public List<String> operands() {
        return List.of("MODEL");
    }

    @Override
    public List<Option> options() {
        return List.of(FOR, AGAINST, BASE, TP, DEEP, RULES, REPORT, Flags.THREADS, Flags.FORCE);
    }

    @Override
    public List<String> examples() {
        return List.of(
                "octet verify Qwen3-8B-FP8 --for vllm,tensorrt-llm --tp 1,2,4,8",
                "octet verify Qwen3-8B-FP8 --deep --against Qwen3-8B --json",
                "octet verify runs/lora/adapter --for vllm,peft --base Llama-3.1-8B",
                "octet verify --rules");
    }

    @Override
    public void checkOperands(Arguments arguments) {
        if (!arguments.has(RULES)) {
            arguments.requireOperands();
        }
    }

    @Override
    public ExitCode run(Arguments arguments, Screen screen) throws IOException {
        if (arguments.has(RULES)) {
            List<RuleText> rules = Verifier.RULES.stream().map(RuleText::of).toList();
            screen.answer(arguments, new Rules(rules), () -> rulesPage(rules));
            return ExitCode.OK;
        }
        long start = System.nanoTime();
        VerifyOptions options = new VerifyOptions(
                consumers(arguments),
                original(arguments),
                devices(arguments),
                arguments.has(DEEP),
                arguments.threads());
        Path model = arguments.operand(0);
        Optional<Path> report = arguments.outputFile(REPORT);
        Verification result = Verifier.verify(model, options);
        double seconds = (System.nanoTime() - start) / 1e9;
        if (report.isPresent()) {
            List<ReportData.Timing> timings = List.of(new ReportData.Timing("verify", seconds));
            Provenance provenance = new Provenance(arguments.job(TaskListener.NONE));
            VerifyReport.write(result, provenance.facts(Provenance.Ran.OCTET, List.of(), timings), report.get());
        }
        screen.answer(arguments, Answer.of(result, seconds), () -> page(result, seconds));
        screen.report(arguments, report);
        return result.passed() ? ExitCode.OK : ExitCode.CHECK_FAILED;
    }

    private static Optional<Path> original(Arguments arguments) {
        if (arguments.has(BASE) && arguments.has(AGAINST)) {
            throw arguments.usage(
                    "--base and --against are both given", "give --base for an adapter, --against for a model");
        }
        if (arguments.has(BASE) && !PeftAdapter.isAdapter(arguments.operand(0))) {
            throw arguments.usage("--base is for adapters", "compare a model with its original by --against");
        }
        return arguments.has(BASE) ? arguments.path(BASE) : arguments.path(AGAINST);
    }

    private static Set<Consumer> consumers(Arguments arguments) {
        Set<Consumer> consumers = EnumSet.noneOf(Consumer.class);
        for (String name : list(arguments.text(FOR))) {
            consumers.add(Consumer.of(name)
                    .orElseThrow(() -> arguments.usage(
                            "unknown consumer '" + name + "'", Nearest.advice(name, Consumer.names()))));
        }
        if (arguments.has(FOR) && consumers.isEmpty()) {
            throw arguments.usage("--for names no consumer", "one or more of " + String.join(", ", Consumer.names()));
        }
        return consumers;
    }

    private static List<Integer> devices(Arguments arguments) {
        List<Integer> devices = new ArrayList<>();
        for (String text : list(arguments.text(TP))) {
            int count = text.matches("\\d{1,4}") ? Integer.parseInt(text) : 0;
            if (count < 1 || count > MAX_DEVICES) {
                throw arguments.usage(
                        "--tp needs numbers from 1 to " + MAX_DEVICES + ", got '" + text + "'",
                        "for example --tp 1,2,4,8");
            }
            devices.add(count);
        }
        if (arguments.has(TP) && devices.isEmpty()) {
            throw arguments.usage("--tp names no number", "for example --tp 1,2,4,8");
        }
        return devices;
    }

    private static List<String> list(Optional<String> value) {
        return value.stream()
                .flatMap(v -> List.of(v.split(",", -1)).stream())
                .map(String::strip)
                .filter(v -> !v.isEmpty())
                .toList();
    }

    private static String rulesPage(List<RuleText> rules) {
        Table table = new Table().heading("rule", "severity", "for", "demand", "source");
        for (RuleText rule : rules) {
            table.row(
                    rule.id(),
                    rule.severity(),
                    String.join(",", rule.consumers()),
                    rule.demand() + (rule.deep() ? " (--deep)" : "") + (rule.needsOriginal() ? " (--against)" : ""),
                    rule.source());
        }
        return table.text(0) + rules.size() + " rules\n";
    }

    private static String page(Verification result, double seconds) {
        StringBuilder page = new StringBuilder();
        Table head = new Table().row("model", result.model()).row("for", String.join(", ", result.consumers()));
        if (!result.layout().isEmpty()) {
            head.row("layout", result.layout());
        }
        if (!result.devices().isEmpty()) {
            head.row(
                    "splits onto",
                    result.devices().stream().map(String::valueOf).collect(Collectors.joining(", "))
                            + (result.devices().getLast() == 1 ? " device" : " devices"));
        }
        page.append(head.text(0));
        for (Finding finding : result.findings()) {
            page.append('\n').append(text(finding, result.consumers().size()));
        }
        page.append('\n');
        result.notes().forEach(n -> page.append("note: ").append(n).append('\n'));
        return page.append(result.errors())
                .append(result.errors() == 1 ? " error, " : " errors, ")
                .append(result.warnings())
                .append(result.warnings() == 1 ? " warning, " : " warnings, ")
                .append(result.advice())
                .append(" advice; ")
                .append(result.rulesRun().size())
                .append(" rules in ")
                .append(Quantity.seconds(seconds))
                .append('\n')
                .toString();
    }

    private static String severity(Finding finding) {
        return TextStyle.here().paint(tone(finding), finding.severity().text());
    }

    private static Tone tone(Finding finding) {
        return switch (finding.severity()) {
            case ERROR -> Tone.BAD;
            case WARNING -> Tone.CAREFUL;
            case ADVICE -> Tone.PLAIN;
        };
    }

    private static String text(Finding finding, int asked) {
        String head = severity(finding) + "  " + finding.rule()
                + (finding.count() > 1 ? " x" + finding.count() : "")
                + (finding.consumers().size() < asked
                        ? "  for "
                                + finding.consumers().stream()
                                        .map(Consumer::text)
                                        .collect(Collectors.joining(", "))
                        : "");
        Table table = new Table().row("what", finding.what());
        List<Finding.Place> places = finding.places();
        for (int i = 0; i < Math.min(SHOWN_PLACES, places.size()); i++) {
            table.row(i == 0 ? "where" : "", places.get(i).toString());
        }
        if (finding.count() > SHOWN_PLACES) {
            table.row("", "and " + (finding.count() - SHOWN_PLACES) + " more");
        }
        return head + "\n"
                + table.row("fix", finding.fix())
                        .row("source", finding.source())
                        .text(2);
    }
}
