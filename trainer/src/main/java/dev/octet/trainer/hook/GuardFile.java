package dev.octet.trainer.hook;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.trainer.config.GuardConfig.Level;
import dev.octet.trainer.config.GuardConfig.Trigger;
import dev.octet.trainer.guard.GuardDecision;
import dev.octet.trainer.guard.GuardDecision.Demoted;
import dev.octet.trainer.guard.GuardDecision.GaveUp;
import dev.octet.trainer.guard.GuardDecision.Promoted;
import dev.octet.trainer.guard.GuardDecision.RolledBack;
import dev.octet.trainer.guard.GuardDecision.Spike;
import dev.octet.trainer.guard.GuardedProduct;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.CharacterCodingException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * {@code guard.jsonl}: one JSON object per decision of the run's guard, each with the {@code step} after which it holds. When a run resumes or is
 * rolled back, the lines of the steps it repeats are removed; the rollback itself is a line of the step it went back to.
 */
public final class GuardFile implements TrainingHook {
    /** Name in the run's folder. */
    public static final String NAME = "guard.jsonl";

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int MAX_LINE = 1_000_000;

    private static final String STEP = "step";
    private static final String DECISION = "decision";
    private static final String PRODUCT = "product";
    private static final String NODE = "node";
    private static final String FROM = "from";
    private static final String TO = "to";
    private static final String TRIGGER = "trigger";
    private static final String SEEN = "seen";
    private static final String VALUE = "value";
    private static final String LIMIT = "limit";
    private static final String QUIET = "quiet";
    private static final String EXPERT = "expert";
    private static final String SEEDS = "seeds";
    private static final String SPIKE = "spike";
    private static final String WHAT = "what";
    private static final String ATTEMPT = "attempt";
    private static final String SNAPSHOT = "snapshot";
    private static final String SKIPPED_FROM = "skipped_from";

    private final StepLines lines;

    /** @param file output; created at the start of the run */
    public GuardFile(Path file) {
        lines = new StepLines(file);
    }

    @Override
    public void runStarted(RunStart start, RunControl control) throws IOException {
        lines.open(start.firstStep());
    }

    @Override
    public void rolledBack(long step) throws IOException {
        lines.cutAfter(step);
    }

    @Override
    public void guardDecided(GuardReport report) throws IOException {
        lines.write(line(report.decision()));
    }

    @Override
    public void runEnded(RunEnd end) throws IOException {
        lines.close();
    }

    private static ObjectNode line(GuardDecision decision) {
        ObjectNode line = StepLines.line(decision.step());
        switch (decision) {
            case Demoted d -> {
                change(line, "demoted", d);
                line.put(TRIGGER, d.trigger().key()).put(SEEN, d.seen());
                StepLines.put(line, VALUE, d.value());
                StepLines.put(line, LIMIT, d.limit());
                line.put(QUIET, d.quiet());
                if (!d.expert().isEmpty()) {
                    line.put(EXPERT, d.expert());
                }
            }
            case Promoted p -> {
                change(line, "promoted", p);
                line.put(QUIET, p.quiet());
                ObjectNode seeds = line.putObject(SEEDS);
                p.seeds().forEach(seeds::put);
            }
            case RolledBack b -> {
                line.put(DECISION, "rolled_back");
                spike(line, b.spike());
                line.put(ATTEMPT, b.attempt()).put(SKIPPED_FROM, b.skippedFrom());
            }
            case GaveUp g -> {
                line.put(DECISION, "gave_up");
                spike(line, g.spike());
                line.put(ATTEMPT, g.attempts()).put(SNAPSHOT, g.snapshot());
            }
        }
        return line;
    }

    private static void change(ObjectNode line, String decision, GuardDecision.LevelChange c) {
        line.put(DECISION, decision)
                .put(PRODUCT, c.product().name())
                .put(NODE, c.product().id())
                .put(FROM, GuardDecision.name(c.from(), c.product()))
                .put(TO, GuardDecision.name(c.to(), c.product()));
    }

    private static void spike(ObjectNode line, Spike s) {
        line.put(SPIKE, s.step()).put(WHAT, s.what());
        StepLines.put(line, VALUE, s.value());
        StepLines.put(line, LIMIT, s.limit());
    }

    /**
     * Reads the decisions of a run, by step, in their order.
     *
     * @param products those of the run that repeats them
     * @throws InvalidDataException when a line is not a decision, or one about a product that the run does not have
     * @throws IOException when the file cannot be read
     */
    public static Map<Long, List<GuardDecision>> read(Path file, List<GuardedProduct> products) throws IOException {
        Map<String, GuardedProduct> byId = new LinkedHashMap<>();
        products.forEach(p -> byId.put(p.id(), p));
        Map<Long, List<GuardDecision>> all = new TreeMap<>();
        try (BufferedReader in = Files.newBufferedReader(file)) {
            int number = 0;
            for (String text = in.readLine(); text != null; text = in.readLine()) {
                number++;
                GuardDecision d = new Line(file + ", line " + number, fields(text, file, number), byId).decision();
                all.computeIfAbsent(d.step(), _ -> new ArrayList<>()).add(d);
            }
        } catch (CharacterCodingException e) {
            throw broken("it is not text", file.toString(), e);
        }
        return all;
    }

    private static JsonNode fields(String text, Path file, int number) {
        String where = file + ", line " + number;
        if (text.length() > MAX_LINE) {
            throw broken("the line has " + text.length() + " characters", where, null);
        }
        try {
            return JSON.readTree(text);
        } catch (IOException e) {
            throw broken("the line is not JSON", where, e);
        }
    }

    private static InvalidDataException broken(String what, String where, @Nullable Exception cause) {
        String fix = "give guard.replay the guard.jsonl of a run with the same model";
        return cause == null
                ? new InvalidDataException(what, where, fix)
                : new InvalidDataException(what, where, fix, cause);
    }

    /** One line of a file. */
    private record Line(String where, JsonNode fields, Map<String, GuardedProduct> products) {
        GuardDecision decision() {
            String decision = text(DECISION);
            long step = whole(STEP);
            return switch (decision) {
                case "demoted" ->
                    new Demoted(
                            step,
                            product(),
                            level(FROM),
                            level(TO),
                            trigger(),
                            whole(SEEN),
                            number(VALUE, Double.NaN),
                            number(LIMIT, Double.POSITIVE_INFINITY),
                            whole(QUIET),
                            fields.path(EXPERT).asText(""));
                case "promoted" -> new Promoted(step, product(), level(FROM), level(TO), whole(QUIET), seeds());
                case "rolled_back" -> {
                    Spike spike = spike();
                    long from = whole(SKIPPED_FROM);
                    if (from <= step || from > spike.step() || spike.step() - from > 1_000_000) {
                        throw broken("it skips the batches of steps " + from + " to " + spike.step(), where, null);
                    }
                    yield new RolledBack(step, spike, (int) Math.min(whole(ATTEMPT), Integer.MAX_VALUE), from);
                }
                case "gave_up" ->
                    new GaveUp(step, spike(), (int) Math.min(whole(ATTEMPT), Integer.MAX_VALUE), whole(SNAPSHOT));
                default -> throw broken("'" + decision + "' is not a decision", where, null);
            };
        }

        private Spike spike() {
            return new Spike(
                    whole(SPIKE), text(WHAT), number(VALUE, Double.NaN), number(LIMIT, Double.POSITIVE_INFINITY));
        }

        private Map<String, Float> seeds() {
            Map<String, Float> seeds = new TreeMap<>();
            for (Map.Entry<String, JsonNode> e : fields.path(SEEDS).properties()) {
                seeds.put(e.getKey(), (float) e.getValue().asDouble(Double.NaN));
            }
            return seeds;
        }

        private GuardedProduct product() {
            GuardedProduct product = products.get(text(NODE));
            if (product == null) {
                throw broken("the run has no product '" + text(NODE) + "' to demote", where, null);
            }
            return product;
        }

        private Level level(String key) {
            String name = text(key);
            if (name.equals(product().scaling())) {
                return Level.CONFIGURED;
            }
            for (Level l : Level.values()) {
                if (l != Level.CONFIGURED && l.key().equals(name)) {
                    return l;
                }
            }
            throw broken("'" + name + "' is not a level of " + product().name(), where, null);
        }

        private Trigger trigger() {
            String name = text(TRIGGER);
            for (Trigger t : Trigger.values()) {
                if (t.key().equals(name)) {
                    return t;
                }
            }
            throw broken("'" + name + "' is not a trigger", where, null);
        }

        private String text(String key) {
            JsonNode value = fields.path(key);
            if (!value.isTextual()) {
                throw broken("'" + key + "' is missing or not a text", where, null);
            }
            return value.textValue();
        }

        private long whole(String key) {
            JsonNode value = fields.path(key);
            if (!value.canConvertToLong() || !value.isIntegralNumber() || value.longValue() < 0) {
                throw broken("'" + key + "' is missing or not a whole number", where, null);
            }
            return value.longValue();
        }

        private double number(String key, double ofNull) {
            JsonNode value = fields.path(key);
            if (value.isNull()) {
                return ofNull;
            }
            if (!value.isNumber()) {
                throw broken("'" + key + "' is missing or not a number", where, null);
            }
            return value.doubleValue();
        }
    }
}
