"""Programs under test and runners for conformance suites. They use the public interface of the library alone."""
