/** What each verb does, as a library. */
module dev.octet.pipeline {
    requires transitive org.jspecify;
    requires transitive dev.octet.converter;
    requires transitive dev.octet.trainer;
    requires com.fasterxml.jackson.databind;

    exports dev.octet.pipeline;
    exports dev.octet.pipeline.doctor;
    exports dev.octet.pipeline.plan;
    // the command line says in three lines what could not be fetched, and guards what a run has in its folder
    exports dev.octet.pipeline.quickstart to
            dev.octet.cli;
    exports dev.octet.pipeline.run to
            dev.octet.cli;

    // results are records, which the command line prints as JSON
    opens dev.octet.pipeline to
            com.fasterxml.jackson.databind;
    opens dev.octet.pipeline.doctor to
            com.fasterxml.jackson.databind;
    opens dev.octet.pipeline.plan to
            com.fasterxml.jackson.databind;
    // the page of a run is drawn from these records
    opens dev.octet.pipeline.history to
            com.fasterxml.jackson.databind;
}
