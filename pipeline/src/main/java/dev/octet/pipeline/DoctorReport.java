package dev.octet.pipeline;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.report.HtmlPage;
import dev.octet.converter.report.RunFacts;
import dev.octet.pipeline.doctor.Course;
import dev.octet.pipeline.history.Series;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;

/** Writes a diagnosis as one self-contained page: the cure with its proof, the curves, how far each product of each layer is off. */
public final class DoctorReport {
    private static final int CURVE_BINS = 800;

    private DoctorReport() {}

    /**
     * What the page is drawn from.
     *
     * @param symptom what was found, in words
     * @param result without its curves
     * @param curves thinned to what a chart can show
     */
    record Data(String symptom, ObjectNode result, List<Curve> curves, RunFacts run) {}

    /** A curve of losses. */
    record Curve(String name, Series loss) {
        static Curve of(Doctor.Curve curve) {
            List<Course.Point> points = curve.course().points();
            return new Curve(
                    curve.name(),
                    Series.thinned(
                            points.stream().map(Course.Point::step).toList(),
                            points.stream().map(Course.Point::loss).toList(),
                            CURVE_BINS));
        }
    }

    /**
     * Writes the page atomically.
     *
     * @throws IOException when it cannot be written
     */
    public static void write(Doctor.Result result, RunFacts run, Path path) throws IOException {
        ObjectNode facts = new ObjectMapper().valueToTree(result);
        facts.remove("curves");
        List<Curve> curves = result.curves().stream().map(Curve::of).toList();
        HtmlPage.write("doctor", result.subject(), new Data(result.symptom().text(), facts, curves, run), path);
    }
}
