// A job that waits for slots says so on each of its pages.
const { show } = await import("./js/dom.js");
const { missingSlots } = await import("./js/pages/job_frame.js");
const failures = [];
const check = (claim, isTrue) => isTrue || failures.push(claim);
const place = document.createElement("div");

check("nothing is said before the server has answered", missingSlots(undefined) === null);
check("nothing is said of a job that has its slots", missingSlots({ now: 9000, waitingForSlots: null, hosts: [] }) === null);
show(place, missingSlots({ now: 9000, waitingForSlots: { needed: 8, available: 4, since: 4000 }, hosts: [] }));
check("what is missing is said, and for how long", /for slots for 5\S* ?s.*needs 8, and 4 are there/.test(place.textContent));
check("who cannot see it is told", place.querySelector("[role=alert]") !== null);
return failures;
